# A VPC and a cluster in it, ready for Flux and Karpenter.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.9, < 7.0"
    }
  }
}

provider "aws" {
  region = "eu-central-1"
}

module "network" {
  source = "../../../network"

  name         = "demo-vpc"
  cluster_name = "demo"
}


module "eks" {
  source = "../.."

  cluster_name       = "demo"
  kubernetes_version = "1.33"

  vpc_id                   = module.network.vpc_id
  subnet_ids               = module.network.private_subnets
  control_plane_subnet_ids = module.network.intra_subnets
  private_access_cidrs     = ["10.200.0.0/16"]
}

output "karpenter_iam_role_arn" {
  value = module.eks.karpenter_iam_role_arn
}

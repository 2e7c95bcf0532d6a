# A cluster that is reached from its VPC and from the network of CAPT.

terraform {
  required_version = ">= 1.8.0"

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


module "cluster" {
  source = "../.."

  cluster_name       = "demo"
  kubernetes_version = "1.33"

  vpc_id                   = module.network.vpc_id
  subnet_ids               = module.network.private_subnets
  control_plane_subnet_ids = module.network.intra_subnets
  private_access_cidrs     = ["10.200.0.0/16"]
}

output "cluster_endpoint" {
  value = module.cluster.cluster_endpoint
}

# The cluster as it was before Flux: Terraform installs Karpenter's chart.

terraform {
  required_version = ">= 1.8.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.9, < 7.0"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 3.0, < 4.0"
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

  vpc_id     = module.network.vpc_id
  subnet_ids = module.network.private_subnets

  endpoint_public_access       = true
  endpoint_public_access_cidrs = ["203.0.113.0/24"]
}

# Flux and Karpenter on Fargate: Karpenter creates all nodes.

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

  vpc_id     = module.network.vpc_id
  subnet_ids = module.network.private_subnets
  compute    = "Fargate"
}

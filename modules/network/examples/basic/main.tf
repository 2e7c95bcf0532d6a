# A VPC over three zones for a cluster named demo, with one NAT gateway.

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
  source = "../.."

  name         = "demo-vpc"
  cidr         = "10.20.0.0/16"
  cluster_name = "demo"
  nat_gateway  = "Single"

  tags = {
    Environment = "demo"
  }
}

output "private_subnets" {
  value = module.network.private_subnets
}

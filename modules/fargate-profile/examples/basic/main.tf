# The pods of the namespace flux-system on Fargate.

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

variable "subnet_ids" {
  type = list(string)
}


module "flux" {
  source = "../.."

  name         = "flux-system"
  cluster_name = "demo"
  subnet_ids   = var.subnet_ids
  selectors    = [{ namespace = "flux-system" }]
}

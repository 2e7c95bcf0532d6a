# Bottlerocket on Graviton.

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


variable "node_security_group_id" {
  type = string
}

module "workers" {
  source = "../.."

  name               = "bottlerocket"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  subnet_ids         = var.subnet_ids
  security_group_ids = [var.node_security_group_id]

  ami_type       = "BOTTLEROCKET_ARM_64"
  instance_types = ["m7g.large", "m6g.large"]
  disk_size      = 100

  user_data = <<-EOT
    [settings.kernel]
    lockdown = "integrity"
  EOT
}

# One node in a chosen zone, with the role of Karpenter's nodes.

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


module "node" {
  source = "../.."

  name               = "demo-md-0-abcde"
  cluster_name       = "demo"
  kubernetes_version = "1.33"

  subnet_ids            = var.subnet_ids
  availability_zone     = "eu-central-1a"
  instance_type         = "m7g.large"
  instance_profile_name = "KarpenterNode-demo-eu-central-1"

  labels = { tier = "web" }
  taints = [{ key = "dedicated", value = "web", effect = "NoSchedule" }]
}

output "provider_id" {
  value = module.node.provider_id
}

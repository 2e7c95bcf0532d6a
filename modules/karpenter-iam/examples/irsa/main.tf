# The AWS resources that Karpenter needs. Its role is assumed through web identity.

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

variable "oidc_provider_arn" {
  type = string
}

variable "oidc_issuer_url" {
  type = string
}

module "karpenter_iam" {
  source = "../.."

  cluster_name      = "demo"
  oidc_provider_arn = var.oidc_provider_arn
  oidc_issuer_url   = var.oidc_issuer_url
}

output "karpenter_iam_role_arn" {
  value = module.karpenter_iam.karpenter_iam_role_arn
}

output "karpenter_queue_name" {
  value = module.karpenter_iam.karpenter_queue_name
}

# The IAM side of Karpenter for nodes with an instance profile that exists.

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

module "karpenter" {
  source = "../.."

  karpenter_chart_version = "1.14.1"
  helm_enabled            = false

  cluster_name      = "demo"
  cluster_endpoint  = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  oidc_provider_arn = null
  oidc_issuer_url   = null

  create_instance_profile    = false
  node_instance_profile_name = "nodes"
  # A managed node group has the same role, so that its access entry exists.
  create_access_entry = false

  karpenter_configs     = { main = { name = "karpenter", namespace = "karpenter" } }
  iam_roles             = { karpenter_controller = { name = "KarpenterController", service = "pods.eks.amazonaws.com" } }
  iam_roles_attachments = {}
}

output "karpenter_iam_role_arn" {
  value = module.karpenter.karpenter_iam_role_arn
}

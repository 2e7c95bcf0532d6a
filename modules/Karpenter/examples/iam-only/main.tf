# The IAM resources only: Flux, or another tool, installs the chart.

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

variable "cluster_endpoint" {
  type = string
}

variable "oidc_provider_arn" {
  type = string
}

variable "oidc_issuer_url" {
  type = string
}


module "karpenter" {
  source = "../.."

  helm_enabled            = false
  karpenter_chart_version = "1.14.1"

  cluster_name               = "demo"
  cluster_endpoint           = var.cluster_endpoint
  oidc_provider_arn          = var.oidc_provider_arn
  oidc_issuer_url            = var.oidc_issuer_url
  node_instance_profile_name = "KarpenterNodeInstanceProfile"

  karpenter_configs     = { main = { name = "karpenter", namespace = "karpenter" } }
  iam_roles             = { karpenter_controller = { name = "KarpenterController" } }
  iam_roles_attachments = {}
}

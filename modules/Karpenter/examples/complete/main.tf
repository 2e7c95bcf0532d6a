# Karpenter, installed with Helm, and its IAM resources.

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

variable "cluster_certificate_authority_data" {
  type = string
}

variable "oidc_provider_arn" {
  type = string
}

variable "oidc_issuer_url" {
  type = string
}


data "aws_eks_cluster_auth" "demo" {
  name = "demo"
}

provider "helm" {
  kubernetes = {
    host                   = var.cluster_endpoint
    cluster_ca_certificate = base64decode(var.cluster_certificate_authority_data)
    token                  = data.aws_eks_cluster_auth.demo.token
  }
}

module "karpenter" {
  source = "../.."

  karpenter_chart_version = "1.14.1"

  cluster_name               = "demo"
  cluster_endpoint           = var.cluster_endpoint
  oidc_provider_arn          = var.oidc_provider_arn
  oidc_issuer_url            = var.oidc_issuer_url
  node_instance_profile_name = "KarpenterNodeInstanceProfile"
  environment                = "production"

  karpenter_configs = {
    main = {
      name      = "karpenter"
      namespace = "karpenter"
      values    = [file("${path.module}/karpenter-values.yaml")]
      additional_sets = [
        { name = "controller.resources.requests.cpu", value = "1" },
        { name = "controller.resources.requests.memory", value = "1Gi" },
      ]
    }
  }

  iam_roles = {
    karpenter_controller = {
      name    = "KarpenterController"
      service = "eks.amazonaws.com"
      tags    = { Purpose = "Karpenter Controller" }
    }
  }
  iam_roles_attachments = {}

  tags = {
    Project   = "EKS Infrastructure"
    Component = "Karpenter"
  }
}

output "karpenter_releases" {
  value = module.karpenter.karpenter_releases
}

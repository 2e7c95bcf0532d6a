# The same through EKS Pod Identity, for Karpenter in kube-system.
# The cluster needs the add-on eks-pod-identity-agent.

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

module "karpenter_iam" {
  source = "../.."

  cluster_name     = "demo"
  service_accounts = [{ namespace = "kube-system", name = "karpenter" }]
  iam_roles        = { karpenter_controller = { service = "pods.eks.amazonaws.com" } }
}

# The new way: the release is forgotten and keeps running. Terraform reads it
# once more before it forgets, so the provider is still here.
terraform {
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.0"
    }
  }
}

provider "helm" {
  kubernetes = {
    config_path = "${local.directory}/kubeconfig"
  }
}

removed {
  from = helm_release.karpenter

  lifecycle {
    destroy = false
  }
}

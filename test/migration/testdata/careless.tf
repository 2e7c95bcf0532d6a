# The release is gone from the module, and nothing says that it is to stay.
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


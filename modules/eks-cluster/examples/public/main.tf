# A cluster that an office reaches over the internet, with two teams and the EBS driver.

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

module "network" {
  source = "../../../network"

  name         = "demo-vpc"
  cluster_name = "demo"
}


variable "ebs_csi_role_arn" {
  type = string
}

module "cluster" {
  source = "../.."

  cluster_name       = "demo"
  kubernetes_version = "1.33"

  vpc_id     = module.network.vpc_id
  subnet_ids = module.network.private_subnets

  endpoint_public_access       = true
  endpoint_public_access_cidrs = ["203.0.113.0/24"]

  access_entries = {
    platform = {
      principal_arn = "arn:aws:iam::123456789012:role/platform"
      policy_associations = {
        admin = { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy" }
      }
    }
    shop = {
      principal_arn = "arn:aws:iam::123456789012:role/shop"
      policy_associations = {
        edit = {
          policy_arn   = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"
          access_scope = { type = "namespace", namespaces = ["shop"] }
        }
      }
    }
  }

  cluster_addons = {
    vpc-cni                = { configuration_values = jsonencode({ env = { ENABLE_PREFIX_DELEGATION = "true" } }) }
    kube-proxy             = {}
    coredns                = {}
    eks-pod-identity-agent = {}
    aws-ebs-csi-driver = {
      pod_identity_associations = [{ role_arn = var.ebs_csi_role_arn, service_account = "ebs-csi-controller-sa" }]
    }
  }
}

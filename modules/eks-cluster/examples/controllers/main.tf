# A cluster with storage, load balancers, DNS records and certificates.

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

module "cluster" {
  source = "../.."

  cluster_name       = "demo"
  kubernetes_version = "1.35"

  vpc_id     = module.network.vpc_id
  subnet_ids = module.network.private_subnets

  ebs_csi_driver                    = true
  aws_load_balancer_controller_role = true
  external_dns_role                 = true
  external_dns_hosted_zones         = ["Z0123456789ABCDEFGHIJ"]
  cert_manager_role                 = true
  cert_manager_hosted_zones         = ["Z0123456789ABCDEFGHIJ"]

  cluster_addons = {
    vpc-cni                = {}
    kube-proxy             = {}
    coredns                = {}
    eks-pod-identity-agent = {}
    external-dns           = {}
    cert-manager           = {}
  }
}

output "addon_role_arns" {
  value = module.cluster.addon_role_arns
}

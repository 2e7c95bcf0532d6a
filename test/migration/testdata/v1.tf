# The old way: Terraform installs Karpenter's chart into the cluster that it makes.
terraform {
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.0"
    }
  }
}

variable "karpenter_repository" {
  type = string
}

variable "karpenter_import" {
  type    = string
  default = null
}

provider "helm" {
  kubernetes = {
    config_path = "${local.directory}/kubeconfig"
  }
}

import {
  for_each = var.karpenter_import == null ? toset([]) : toset([var.karpenter_import])
  to       = helm_release.karpenter["main"]
  id       = each.value
}

resource "helm_release" "karpenter" {
  for_each = toset(["main"])

  name             = "karpenter"
  namespace        = "karpenter"
  create_namespace = true
  repository       = var.karpenter_repository
  chart            = "karpenter"
  version          = "1.14.1"
  # The nodes come later.
  wait = false

  values = [yamlencode({
    settings = {
      clusterName       = var.cluster_name
      clusterEndpoint   = try(trimspace(file("${local.files}/endpoint")), "")
      interruptionQueue = "Karpenter-${var.cluster_name}"
    }
    serviceAccount = {
      annotations = {
        "eks.amazonaws.com/role-arn" = "arn:aws:iam::000000000000:role/KarpenterController-${var.cluster_name}"
      }
    }
  })]

  depends_on = [terraform_data.version]
}

# EKS delivers the last logs of a deleted cluster after its deletion, and creates the log
# group for them again. A new cluster of that name takes it over. The log group of a
# cluster that exists is not touched. Only a root module can import.
data "aws_eks_clusters" "existing" {
  region = var.region
}

data "aws_cloudwatch_log_groups" "existing" {
  region = var.region

  log_group_name_prefix = "/aws/eks/${var.cluster_name}/cluster"
}

locals {
  orphaned_log_groups = [
    for name in data.aws_cloudwatch_log_groups.existing.log_group_names : name
    if name == "/aws/eks/${var.cluster_name}/cluster" && !contains(data.aws_eks_clusters.existing.names, var.cluster_name)
  ]
}

import {
  for_each = toset(local.orphaned_log_groups)

  to = module.cluster.aws_cloudwatch_log_group.this
  id = var.region == null ? each.value : "${each.value}@${var.region}"
}

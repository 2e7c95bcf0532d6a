data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = coalesce(var.region, data.aws_region.current.region)

  cluster_arn = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"

  # Names of roles end at 64 characters, of queues at 80, of policies at 128;
  # names of clusters at 100.
  # Queues are regional; IAM is global, so that clusters of one name in two regions have two
  # roles.
  iam_base   = "${var.cluster_name}-${local.region}"
  iam_name   = length(local.iam_base) <= 43 ? local.iam_base : "${substr(local.iam_base, 0, 34)}-${substr(sha256(local.iam_base), 0, 8)}"
  short_name = length(var.cluster_name) <= 43 ? var.cluster_name : "${substr(var.cluster_name, 0, 34)}-${substr(sha256(var.cluster_name), 0, 8)}"
}

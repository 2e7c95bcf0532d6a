data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  partition = data.aws_partition.current.partition
  region    = coalesce(var.region, data.aws_region.current.region)

  create_role = coalesce(var.create_pod_execution_role, var.pod_execution_role_arn == null)
  role_arn    = local.create_role ? aws_iam_role.this[0].arn : var.pod_execution_role_arn

  # IAM is global: clusters of one name in two regions have two roles. Names end at 64
  # characters.
  role_base = "${var.cluster_name}-${var.name}-${local.region}"
  role_name = length("${local.role_base}-fargate") <= 64 ? "${local.role_base}-fargate" : "${substr(local.role_base, 0, 47)}-${substr(sha256(local.role_base), 0, 8)}-fargate"

  # The condition prevents profiles of other accounts and clusters from using the role.
  trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "FargatePods"
      Effect    = "Allow"
      Principal = { Service = "eks-fargate-pods.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = {
        ArnLike = {
          "aws:SourceArn" = "arn:${local.partition}:eks:${local.region}:${data.aws_caller_identity.current.account_id}:fargateprofile/${var.cluster_name}/*"
        }
      }
    }]
  }
}

resource "aws_iam_role" "this" {
  count = local.create_role ? 1 : 0

  name                 = local.role_name
  description          = "Fargate profile ${var.name} of the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags

  lifecycle {
    # An imported role keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

resource "aws_iam_role_policy_attachment" "this" {
  count = local.create_role ? 1 : 0

  role       = aws_iam_role.this[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"
}

resource "aws_eks_fargate_profile" "this" {
  region = var.region

  cluster_name           = var.cluster_name
  fargate_profile_name   = var.name
  pod_execution_role_arn = local.role_arn
  subnet_ids             = var.subnet_ids

  dynamic "selector" {
    for_each = var.selectors
    content {
      namespace = selector.value.namespace
      labels    = selector.value.labels
    }
  }

  timeouts {
    create = var.timeouts.create
    delete = var.timeouts.delete
  }

  tags = var.tags

  depends_on = [aws_iam_role_policy_attachment.this]
}

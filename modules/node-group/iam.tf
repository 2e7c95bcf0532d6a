data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  create_role   = coalesce(var.create_node_role, var.node_role_arn == null)
  node_role_arn = local.create_role ? aws_iam_role.node[0].arn : var.node_role_arn

  # IAM is global: clusters of one name in two regions have two roles. Names end at 64
  # characters.
  role_base = "${var.cluster_name}-${var.name}-${coalesce(var.region, data.aws_region.current.region)}"
  role_name = length("${local.role_base}-node") <= 64 ? "${local.role_base}-node" : "${substr(local.role_base, 0, 50)}-${substr(sha256(local.role_base), 0, 8)}-node"

  node_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Nodes"
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  }

  node_policies = !local.create_role ? [] : concat(
    ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
    var.cni_policy ? ["AmazonEKS_CNI_Policy"] : [],
    var.ssm_policy ? ["AmazonSSMManagedInstanceCore"] : [],
  )
}

resource "aws_iam_role" "node" {
  count = local.create_role ? 1 : 0

  name                 = local.role_name
  description          = "Nodes of the group ${var.name} of the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.node_trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags

  lifecycle {
    # An imported role keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(local.node_policies)

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.key}"
}

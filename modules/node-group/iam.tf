data "aws_partition" "current" {}

locals {
  node_role_arn = var.node_role_arn != null ? var.node_role_arn : aws_iam_role.node[0].arn

  # Names of IAM roles end at 64 characters.
  role_base = "${var.cluster_name}-${var.name}"
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

  node_policies = var.node_role_arn != null ? [] : concat(
    ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
    var.cni_policy ? ["AmazonEKS_CNI_Policy"] : [],
    var.ssm_policy ? ["AmazonSSMManagedInstanceCore"] : [],
  )
}

resource "aws_iam_role" "node" {
  count = var.node_role_arn == null ? 1 : 0

  name                 = local.role_name
  description          = "Nodes of the group ${var.name} of the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.node_trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(local.node_policies)

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.key}"
}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  create_role = coalesce(var.create_instance_profile, var.instance_profile_name == null)

  instance_profile_name = local.create_role ? aws_iam_instance_profile.node[0].name : var.instance_profile_name

  # IAM is global: clusters of one name in two regions have two roles. Names end at 64
  # characters.
  role_base = "${var.cluster_name}-${var.name}-${coalesce(var.region, data.aws_region.current.region)}"
  role_name = length("${local.role_base}-machine") <= 64 ? "${local.role_base}-machine" : "${substr(local.role_base, 0, 47)}-${substr(sha256(local.role_base), 0, 8)}-machine"

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
  description          = "Machine ${var.name} of the EKS cluster ${var.cluster_name}"
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

resource "aws_iam_instance_profile" "node" {
  count = local.create_role ? 1 : 0

  name = local.role_name
  role = aws_iam_role.node[0].name

  tags = var.tags

  lifecycle {
    # An imported profile keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

resource "aws_eks_access_entry" "node" {
  count = local.create_role ? 1 : 0

  region = var.region

  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node[0].arn
  type          = "EC2_LINUX"

  tags = var.tags
}

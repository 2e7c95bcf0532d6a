# The role of an existing instance profile: Karpenter must be allowed to pass it.
data "aws_iam_instance_profile" "node" {
  count = var.create_instance_profile ? 0 : 1

  name = var.node_instance_profile_name

  lifecycle {
    precondition {
      condition     = var.node_instance_profile_name != null
      error_message = "Without create_instance_profile, set node_instance_profile_name to the existing instance profile of the nodes."
    }
    precondition {
      condition     = var.node_role_arn == null
      error_message = "node_role_arn is read from the existing instance profile: remove it, or set create_node_role to false instead of create_instance_profile."
    }
  }
}

locals {
  creates_node_role = var.create_node_role && var.create_instance_profile

  node_role_name = coalesce(var.node_role_name, "KarpenterNode-${local.iam_name}")
  node_role_arn  = local.creates_node_role ? aws_iam_role.node[0].arn : var.create_instance_profile ? var.node_role_arn : data.aws_iam_instance_profile.node[0].role_arn

  instance_profile_name = local.creates_node_role ? aws_iam_instance_profile.node[0].name : var.node_instance_profile_name

  node_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Nodes"
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  }

  node_policy_names = concat(
    ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
    var.cni_policy ? ["AmazonEKS_CNI_Policy"] : [],
    var.ssm_policy ? ["AmazonSSMManagedInstanceCore"] : [],
  )
  node_policies = !local.creates_node_role ? {} : merge(
    { for name in local.node_policy_names : name => "arn:${local.partition}:iam::aws:policy/${name}" },
    var.node_policy_arns,
  )
}

resource "aws_iam_role" "node" {
  count = local.creates_node_role ? 1 : 0

  name                 = local.node_role_name
  description          = "Karpenter's nodes in the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.node_trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags

  lifecycle {
    # An imported role keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = local.node_policies

  role       = aws_iam_role.node[0].name
  policy_arn = each.value
}

resource "aws_iam_instance_profile" "node" {
  count = local.creates_node_role ? 1 : 0

  name = coalesce(var.node_instance_profile_name, local.node_role_name)
  role = aws_iam_role.node[0].name

  tags = var.tags

  lifecycle {
    # An imported profile keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

# Managed node groups get theirs from EKS; nodes that Karpenter starts do not.
resource "aws_eks_access_entry" "node" {
  count = var.create_access_entry ? 1 : 0

  region = var.region

  cluster_name  = var.cluster_name
  principal_arn = local.node_role_arn
  type          = "EC2_LINUX"

  tags = var.tags
}

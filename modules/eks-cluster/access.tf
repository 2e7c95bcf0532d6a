resource "aws_eks_access_entry" "this" {
  for_each = var.access_entries

  region = var.region

  cluster_name      = aws_eks_cluster.this.name
  principal_arn     = each.value.principal_arn
  type              = each.value.type
  user_name         = each.value.user_name
  kubernetes_groups = each.value.kubernetes_groups

  tags = var.tags
}

locals {
  policy_associations = merge([
    for entry_name, entry in var.access_entries : {
      for name, association in entry.policy_associations : "${entry_name}/${name}" => merge(association, { entry = entry_name })
    }
  ]...)
}

resource "aws_eks_access_policy_association" "this" {
  for_each = local.policy_associations

  region = var.region

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.this[each.value.entry].principal_arn
  policy_arn    = each.value.policy_arn != null ? each.value.policy_arn : "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/${each.value.policy_name}"

  access_scope {
    type       = each.value.access_scope.type
    namespaces = each.value.access_scope.namespaces
  }
}

# The role behind the session of an assumed role.
data "aws_iam_session_context" "current" {
  count = var.cluster_creator_entry ? 1 : 0

  arn = data.aws_caller_identity.current.arn
}

resource "aws_eks_access_entry" "creator" {
  count = var.cluster_creator_entry ? 1 : 0

  region = var.region

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = data.aws_iam_session_context.current[0].issuer_arn

  tags = var.tags

  lifecycle {
    precondition {
      condition     = !var.cluster_creator_admin
      error_message = "With cluster_creator_admin EKS creates the entry of cluster_creator_entry itself: set cluster_creator_admin to false. Of a cluster that was created with it, delete that entry first: aws eks delete-access-entry."
    }
  }
}

resource "aws_eks_access_policy_association" "creator" {
  count = var.cluster_creator_entry ? 1 : 0

  region = var.region

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.creator[0].principal_arn
  policy_arn    = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}

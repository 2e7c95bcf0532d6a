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
  policy_arn    = each.value.policy_arn

  access_scope {
    type       = each.value.access_scope.type
    namespaces = each.value.access_scope.namespaces
  }
}

locals {
  # DaemonSets that nodes need to become ready. They are active without a node;
  # Deployments such as CoreDNS are not.
  node_addons = ["eks-pod-identity-agent", "kube-proxy", "vpc-cni"]

  before_compute = { for name, addon in var.cluster_addons : name => coalesce(addon.before_compute, contains(local.node_addons, name)) }

  addon_versions = { for name, addon in var.cluster_addons : name => addon.version != null ? addon.version : data.aws_eks_addon_version.this[name].version }
}

data "aws_eks_addon_version" "this" {
  for_each = { for name, addon in var.cluster_addons : name => addon if addon.version == null }

  region = var.region

  addon_name         = each.key
  kubernetes_version = var.kubernetes_version
  most_recent        = each.value.most_recent
}

resource "aws_eks_addon" "before_compute" {
  for_each = { for name, addon in var.cluster_addons : name => addon if local.before_compute[name] }

  region = var.region

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  addon_version               = local.addon_versions[each.key]
  configuration_values        = each.value.configuration_values
  service_account_role_arn    = each.value.service_account_role_arn
  preserve                    = each.value.preserve
  resolve_conflicts_on_create = each.value.resolve_conflicts_on_create
  resolve_conflicts_on_update = each.value.resolve_conflicts_on_update

  dynamic "pod_identity_association" {
    for_each = each.value.pod_identity_associations
    content {
      role_arn        = pod_identity_association.value.role_arn
      service_account = pod_identity_association.value.service_account
    }
  }

  tags = var.tags
}

resource "aws_eks_addon" "this" {
  for_each = { for name, addon in var.cluster_addons : name => addon if !local.before_compute[name] && var.compute_exists }

  region = var.region

  # Known once the compute exists, so that this resource waits for it.
  cluster_name                = [aws_eks_cluster.this.name, var.compute][0]
  addon_name                  = each.key
  addon_version               = local.addon_versions[each.key]
  configuration_values        = each.value.configuration_values
  service_account_role_arn    = each.value.service_account_role_arn
  preserve                    = each.value.preserve
  resolve_conflicts_on_create = each.value.resolve_conflicts_on_create
  resolve_conflicts_on_update = each.value.resolve_conflicts_on_update

  dynamic "pod_identity_association" {
    for_each = each.value.pod_identity_associations
    content {
      role_arn        = pod_identity_association.value.role_arn
      service_account = pod_identity_association.value.service_account
    }
  }

  # The pods may have to wait for the first node.
  timeouts {
    create = "30m"
  }

  tags = var.tags

  # CoreDNS waits for nodes, and nodes for the network add-on.
  depends_on = [aws_eks_addon.before_compute]
}

locals {
  # DaemonSets that nodes need to become ready. They are active without a node;
  # Deployments such as CoreDNS are not.
  node_addons = ["eks-pod-identity-agent", "kube-proxy", "vpc-cni"]

  # The role reaches the driver's service account by an association, or by the annotation
  # that EKS sets for service_account_role_arn.
  ebs_csi_driver = merge(
    {
      version                     = null
      most_recent                 = false
      configuration_values        = null
      service_account_role_arn    = null
      pod_identity_associations   = []
      before_compute              = null
      preserve                    = false
      resolve_conflicts_on_create = "OVERWRITE"
      resolve_conflicts_on_update = "OVERWRITE"
    },
    try(var.cluster_addons["aws-ebs-csi-driver"], {}),
    var.ebs_csi_driver && var.addon_identity == "IRSA" ? { service_account_role_arn = aws_iam_role.addon["ebs_csi_driver"].arn } : {},
  )
  vpc_cni = {
    for name in ["vpc-cni"] : name => merge(var.cluster_addons[name], { service_account_role_arn = aws_iam_role.addon["vpc_cni"].arn })
    if contains(keys(local.addon_roles), "vpc_cni") && var.addon_identity == "IRSA"
  }
  cluster_addons = merge(var.cluster_addons, local.vpc_cni, { for name in ["aws-ebs-csi-driver"] : name => local.ebs_csi_driver if var.ebs_csi_driver })

  before_compute = { for name, addon in local.cluster_addons : name => coalesce(addon.before_compute, contains(local.node_addons, name)) }

  addon_versions = { for name, addon in local.cluster_addons : name => addon.version != null ? addon.version : data.aws_eks_addon_version.this[name].version }
}

data "aws_eks_addon_version" "this" {
  for_each = { for name, addon in local.cluster_addons : name => addon if addon.version == null }

  region = var.region

  addon_name         = each.key
  kubernetes_version = var.kubernetes_version
  most_recent        = each.value.most_recent
}

resource "aws_eks_addon" "before_compute" {
  for_each = { for name, addon in local.cluster_addons : name => addon if local.before_compute[name] }

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
  for_each = { for name, addon in local.cluster_addons : name => addon if !local.before_compute[name] && var.compute_exists }

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

  # CoreDNS waits for nodes, and nodes for the network add-on. Pods get the credentials of
  # an association only if it is older than they are.
  depends_on = [
    aws_eks_addon.before_compute,
    aws_eks_pod_identity_association.addon,
    aws_iam_role_policy.addon,
    aws_iam_role_policy_attachment.ebs_csi_driver,
  ]
}

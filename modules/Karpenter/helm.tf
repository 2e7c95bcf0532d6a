locals {
  base_values = {
    for key, config in var.karpenter_configs : key => {
      settings = {
        clusterName       = var.cluster_name
        clusterEndpoint   = var.cluster_endpoint
        interruptionQueue = module.iam.karpenter_queue_name
        enableZonalShift  = var.zonal_shift
      }
      serviceAccount = {
        create = true
        name   = config.name
        # With Pod Identity the annotation would make the SDK try web identity first.
        annotations = var.iam_roles[local.role_of[key]].service != "eks.amazonaws.com" ? {} : {
          "eks.amazonaws.com/role-arn" = module.iam.iam_roles[local.role_of[key]].arn
        }
      }
    }
  }
}

resource "helm_release" "karpenter" {
  for_each = var.helm_enabled ? var.karpenter_configs : {}

  name             = each.value.name
  namespace        = each.value.namespace
  create_namespace = each.value.create_namespace
  repository       = each.value.repository
  chart            = each.value.chart
  version          = local.versions[each.key]

  # A running release of this name is upgraded in place: this is how a
  # migration to Flux is reverted.
  upgrade_install = true

  # Later values take precedence, and set takes precedence over values.
  values = concat([yamlencode(local.base_values[each.key])], each.value.values)
  set    = each.value.additional_sets
}

locals {
  tags = merge(var.tags, var.environment == null ? {} : { Environment = var.environment })

  versions = { for key, config in var.karpenter_configs : key => coalesce(config.version, var.karpenter_chart_version) }

  # The policies must match the oldest release.
  policies_version = try([for version in values(local.versions) : version if startswith(version, "0.")][0], var.karpenter_chart_version)

  controller_roles = [for key, role in var.iam_roles : key if contains(["eks.amazonaws.com", "pods.eks.amazonaws.com"], role.service)]
  main_role        = contains(local.controller_roles, "karpenter_controller") ? "karpenter_controller" : sort(local.controller_roles)[0]
  role_of          = { for key, config in var.karpenter_configs : key => contains(local.controller_roles, key) ? key : local.main_role }
}

module "iam" {
  source = "../karpenter-iam"

  cluster_name      = var.cluster_name
  region            = var.region
  karpenter_version = local.policies_version

  oidc_provider_arn = var.oidc_provider_arn
  oidc_issuer_url   = var.oidc_issuer_url
  service_accounts  = [for key in sort(keys(var.karpenter_configs)) : { namespace = var.karpenter_configs[key].namespace, name = var.karpenter_configs[key].name }]

  iam_roles             = var.iam_roles
  iam_roles_attachments = var.iam_roles_attachments

  create_node_role           = var.create_node_role
  create_instance_profile    = var.create_instance_profile
  node_role_name             = var.node_role_name
  node_role_arn              = var.node_role_arn
  node_instance_profile_name = var.node_instance_profile_name
  create_access_entry        = var.create_access_entry

  interruption_queue = var.interruption_queue
  queue_name         = var.queue_name
  zonal_shift        = var.zonal_shift

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = local.tags
}

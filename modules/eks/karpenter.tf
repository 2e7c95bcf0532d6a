locals {
  create_karpenter = coalesce(var.create_karpenter, !local.auto_mode)
}

# The AWS resources that Karpenter needs. Flux installs its chart, with the outputs of
# this module as values.
module "karpenter_iam" {
  source = "../karpenter-iam"
  count  = local.create_karpenter ? 1 : 0

  cluster_name      = module.cluster.cluster_name
  region            = var.region
  karpenter_version = var.karpenter_version

  oidc_provider_arn = module.cluster.oidc_provider_arn
  oidc_issuer_url   = module.cluster.oidc_provider_url
  service_accounts  = [{ namespace = var.karpenter_namespace, name = var.karpenter_service_account }]
  iam_roles         = { karpenter_controller = { name = local.karpenter_role_name, service = local.karpenter_service } }

  create_instance_profile    = var.karpenter_create_instance_profile
  node_role_name             = local.karpenter_node_role_name
  node_instance_profile_name = local.karpenter_profile_name
  create_access_entry        = var.karpenter_access_entry
  interruption_queue         = var.karpenter_interruption_queue
  zonal_shift                = var.zonal_shift

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

variable "karpenter_values" {
  description = "Values of Karpenter's chart, as YAML documents."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "karpenter_additional_sets" {
  description = "Single values of Karpenter's chart."
  type = list(object({
    name  = string
    value = string
    type  = optional(string, "string")
  }))
  default  = []
  nullable = false
}

module "karpenter" {
  source = "../Karpenter"

  karpenter_chart_version = var.karpenter_version
  cluster_name            = module.cluster.cluster_name
  region                  = var.region

  oidc_provider_arn = module.cluster.oidc_provider_arn
  oidc_issuer_url   = module.cluster.oidc_provider_url

  # The release waits for its pods, and these for somewhere to run: the endpoint is
  # handed over once the compute is there.
  cluster_endpoint = [module.cluster.cluster_endpoint, module.node_group, module.fargate_profile][0]

  create_instance_profile    = var.karpenter_create_instance_profile
  node_instance_profile_name = local.karpenter_profile_name
  create_access_entry        = var.karpenter_access_entry
  node_role_name             = local.karpenter_node_role_name
  interruption_queue         = var.karpenter_interruption_queue
  zonal_shift                = var.zonal_shift

  karpenter_configs = {
    main = {
      name            = var.karpenter_service_account
      namespace       = var.karpenter_namespace
      values          = var.karpenter_values
      additional_sets = var.karpenter_additional_sets
    }
  }
  iam_roles             = { karpenter_controller = { name = local.karpenter_role_name, service = local.karpenter_service } }
  iam_roles_attachments = {}

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

# The cluster, and the compute that exists before Karpenter runs. modules/eks and
# modules/eks-v1 share this file, so that their resources have the same
# addresses.

data "aws_region" "current" {}

locals {
  auto_mode = var.compute == "AutoMode"
  # Nodes that Auto Mode does not create need the add-ons that it runs on its own nodes.
  other_nodes = !local.auto_mode || var.create_karpenter == true || length(var.node_groups) > 0

  addons = merge({
    for name in var.default_addons : name => {
      version                     = null
      most_recent                 = false
      configuration_values        = null
      service_account_role_arn    = null
      pod_identity_associations   = []
      before_compute              = null
      preserve                    = false
      resolve_conflicts_on_create = "OVERWRITE"
      resolve_conflicts_on_update = "OVERWRITE"
    } if local.other_nodes
  }, var.cluster_addons)

  # CoreDNS has to request Fargate itself.
  fargate_configuration = {
    for name, addon in local.addons : name => jsonencode(merge({ computeType = "Fargate" }, try(jsondecode(addon.configuration_values), {})))
    if name == "coredns" && var.compute == "Fargate"
  }

  compute_profiles = concat(
    [for namespace in var.fargate_namespaces : { name = namespace, namespace = namespace, labels = tomap({}) }],
    [{ name = "coredns", namespace = "kube-system", labels = tomap({ k8s-app = "kube-dns" }) }],
  )
  fargate_profiles = merge(
    { for p in local.compute_profiles : p.name => { selectors = tolist([{ namespace = p.namespace, labels = p.labels }]) } if var.compute == "Fargate" },
    var.fargate_profiles,
  )

  compute_subnet_ids = var.compute_subnet_ids != null ? var.compute_subnet_ids : var.subnet_ids

  # IAM is global: clusters of one name in two regions have two roles. Names of IAM roles
  # end at 64 characters, names of clusters at 100.
  iam_base                 = "${var.cluster_name}-${coalesce(var.region, data.aws_region.current.region)}"
  iam_name                 = length(local.iam_base) <= 43 ? local.iam_base : "${substr(local.iam_base, 0, 34)}-${substr(sha256(local.iam_base), 0, 8)}"
  karpenter_role_name      = coalesce(var.karpenter_role_name, "KarpenterController-${local.iam_name}")
  karpenter_node_role_name = coalesce(var.karpenter_node_role_name, "KarpenterNode-${local.iam_name}")
  karpenter_profile_name   = var.karpenter_create_instance_profile ? local.karpenter_node_role_name : var.karpenter_instance_profile_name
  karpenter_service        = { IRSA = "eks.amazonaws.com", PodIdentity = "pods.eks.amazonaws.com" }[var.karpenter_identity]
}

module "cluster" {
  source = "../eks-cluster"

  cluster_name       = var.cluster_name
  kubernetes_version = var.kubernetes_version
  region             = var.region

  vpc_id                   = var.vpc_id
  subnet_ids               = var.subnet_ids
  control_plane_subnet_ids = var.control_plane_subnet_ids
  service_ipv4_cidr        = var.service_ipv4_cidr
  ip_family                = var.ip_family

  endpoint_public_access       = var.endpoint_public_access
  endpoint_private_access      = var.endpoint_private_access
  endpoint_public_access_cidrs = var.endpoint_public_access_cidrs
  private_access_cidrs         = var.private_access_cidrs

  authentication_mode   = var.authentication_mode
  cluster_creator_admin = var.cluster_creator_admin
  cluster_creator_entry = var.cluster_creator_entry
  access_entries        = var.access_entries

  kms_key_arn              = var.kms_key_arn
  create_kms_key           = var.create_kms_key
  kms_deletion_window_days = var.kms_deletion_window_days
  log_types                = var.log_types
  log_retention_days       = var.log_retention_days
  log_kms_key_arn          = var.log_kms_key_arn

  cluster_addons = { for name, addon in local.addons : name => merge(addon, { configuration_values = lookup(local.fargate_configuration, name, addon.configuration_values) }) }

  addon_identity                    = var.addon_identity
  ebs_csi_driver                    = var.ebs_csi_driver
  ebs_csi_kms_key_arns              = var.ebs_csi_kms_key_arns
  ebs_csi_policy_arn                = var.ebs_csi_policy_arn
  aws_load_balancer_controller_role = var.aws_load_balancer_controller_role
  external_dns_role                 = var.external_dns_role
  external_dns_hosted_zones         = var.external_dns_hosted_zones
  cert_manager_role                 = var.cert_manager_role
  cert_manager_hosted_zones         = var.cert_manager_hosted_zones
  addon_service_accounts            = var.addon_service_accounts

  auto_mode = local.auto_mode ? { enabled = true, node_pools = var.auto_mode_node_pools } : var.disable_auto_mode ? { enabled = false, node_pools = toset([]) } : null

  compute        = [module.node_group[*].node_group_arn, [for group in module.node_groups : group.node_group_arn], [for profile in module.fargate_profile : profile.fargate_profile_arn]]
  compute_exists = var.compute != "None" || var.nodes_ready || length(var.node_groups) > 0

  cluster_security_group_rules = var.cluster_security_group_rules
  node_security_group_rules    = var.node_security_group_rules

  iam_role_arn             = var.iam_role_arn
  create_iam_role          = var.create_iam_role
  permissions_boundary_arn = var.permissions_boundary_arn
  deletion_protection      = var.deletion_protection
  force_update             = var.force_update
  support_type             = var.support_type
  zonal_shift              = var.zonal_shift
  timeouts                 = var.timeouts
  tags                     = var.tags
}

module "node_group" {
  source = "../node-group"
  count  = var.compute == "ManagedNodeGroup" ? 1 : 0

  name               = var.node_group.name
  cluster_name       = module.cluster.cluster_name
  kubernetes_version = module.cluster.cluster_version
  region             = var.region

  subnet_ids         = local.compute_subnet_ids
  security_group_ids = [module.cluster.node_security_group_id]

  instance_types     = var.node_group.instance_types
  capacity_type      = var.node_group.capacity_type
  ami_type           = var.node_group.ami_type
  release_version    = var.node_group.release_version
  disk_size          = var.node_group.disk_size
  min_size           = var.node_group.min_size
  max_size           = var.node_group.max_size
  desired_size       = var.node_group.desired_size
  autoscaled         = var.node_group.autoscaled
  ip_family          = var.ip_family
  labels             = var.node_group.labels
  taints             = var.node_group.taints
  metadata_hop_limit = var.node_group.metadata_hop_limit

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

module "node_groups" {
  source   = "../node-group"
  for_each = var.node_groups

  name               = each.key
  cluster_name       = module.cluster.cluster_name
  kubernetes_version = module.cluster.cluster_version
  region             = var.region

  # A zone in which the cluster had no subnet takes one that the VPC got later.
  subnet_ids         = local.compute_subnet_ids
  later_subnet_ids   = var.compute_subnet_ids == null ? [] : [for id in var.subnet_ids : id if !contains(local.compute_subnet_ids, id)]
  availability_zones = each.value.availability_zones

  # With ami_id the module has to make nodes join.
  cluster_endpoint                   = each.value.ami_id == null ? null : module.cluster.cluster_endpoint
  cluster_certificate_authority_data = each.value.ami_id == null ? null : module.cluster.cluster_certificate_authority_data
  cluster_service_cidr               = each.value.ami_id == null ? null : module.cluster.cluster_service_cidr

  security_group_ids = [module.cluster.node_security_group_id]

  instance_types     = each.value.instance_types
  capacity_type      = each.value.capacity_type
  ami_type           = each.value.ami_type
  release_version    = each.value.release_version
  ami_id             = each.value.ami_id
  disk_size          = each.value.disk_size
  min_size           = each.value.min_size
  max_size           = each.value.max_size
  desired_size       = each.value.desired_size
  autoscaled         = each.value.autoscaled
  ip_family          = var.ip_family
  labels             = each.value.labels
  taints             = each.value.taints
  metadata_hop_limit = each.value.metadata_hop_limit

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

module "fargate_profile" {
  source   = "../fargate-profile"
  for_each = local.fargate_profiles

  name         = each.key
  cluster_name = module.cluster.cluster_name
  region       = var.region
  subnet_ids   = local.compute_subnet_ids
  selectors    = each.value.selectors

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

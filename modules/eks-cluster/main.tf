data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  # IAM is global: clusters of one name in two regions have two roles. Names of IAM roles
  # end at 64 characters, names of clusters at 100.
  role_base = "${var.cluster_name}-${coalesce(var.region, data.aws_region.current.region)}"
  role_name = length("${local.role_base}-cluster") <= 64 ? "${local.role_base}-cluster" : "${substr(local.role_base, 0, 47)}-${substr(sha256(local.role_base), 0, 8)}-cluster"
}

# Created before the cluster, which would otherwise create it without a retention.
resource "aws_cloudwatch_log_group" "this" {
  region = var.region

  name              = "/aws/eks/${var.cluster_name}/cluster"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn

  tags = var.tags
}

resource "aws_eks_cluster" "this" {
  region = var.region

  name     = var.cluster_name
  version  = var.kubernetes_version
  role_arn = local.role_arn

  enabled_cluster_log_types = var.log_types
  deletion_protection       = var.deletion_protection
  force_update_version      = var.force_update ? true : null
  # The add-ons below are EKS add-ons: what EKS would install by itself could
  # neither be configured nor upgraded here.
  bootstrap_self_managed_addons = false

  access_config {
    authentication_mode                         = var.authentication_mode
    bootstrap_cluster_creator_admin_permissions = var.cluster_creator_admin
  }

  vpc_config {
    subnet_ids              = coalesce(var.control_plane_subnet_ids, var.subnet_ids)
    endpoint_private_access = var.endpoint_private_access
    endpoint_public_access  = var.endpoint_public_access
    public_access_cidrs     = var.endpoint_public_access ? var.endpoint_public_access_cidrs : null
  }

  kubernetes_network_config {
    ip_family         = var.ip_family
    service_ipv4_cidr = var.service_ipv4_cidr

    dynamic "elastic_load_balancing" {
      for_each = local.auto_mode
      content {
        enabled = elastic_load_balancing.value.enabled
      }
    }
  }

  # EKS accepts compute, load balancing and storage of Auto Mode only together.
  dynamic "compute_config" {
    for_each = local.auto_mode
    content {
      enabled    = compute_config.value.enabled
      node_pools = local.auto_mode_pools
      # EKS takes a role only for its own pools.
      node_role_arn = length(local.auto_mode_pools) > 0 ? local.auto_mode_node_role_arn : null
    }
  }

  dynamic "storage_config" {
    for_each = local.auto_mode
    content {
      block_storage {
        enabled = storage_config.value.enabled
      }
    }
  }

  encryption_config {
    resources = ["secrets"]
    provider {
      key_arn = local.kms_key_arn
    }
  }

  upgrade_policy {
    support_type = var.support_type
  }

  # Without the block the provider would send an update without a change, which EKS refuses.
  zonal_shift_config {
    enabled = var.zonal_shift
  }

  timeouts {
    create = var.timeouts.create
    update = var.timeouts.update
    delete = var.timeouts.delete
  }

  tags = var.tags

  lifecycle {
    # EKS reads it only when it creates the cluster; a change would replace it.
    ignore_changes = [access_config[0].bootstrap_cluster_creator_admin_permissions]

    precondition {
      condition     = var.endpoint_public_access || var.endpoint_private_access
      error_message = "Set endpoint_public_access or endpoint_private_access to true, or the API server is unreachable."
    }
    precondition {
      condition     = var.ip_family != "ipv6" || var.service_ipv4_cidr == null
      error_message = "With ip_family = ipv6 EKS chooses the network of services: remove service_ipv4_cidr."
    }
    # Without its blocks Auto Mode would stay as it is, and keep its nodes.
    postcondition {
      condition     = local.auto_mode_enabled || !try(self.compute_config[0].enabled, false)
      error_message = "EKS Auto Mode is still enabled, with its nodes and load balancers: to disable it, set auto_mode to { enabled = false }."
    }
    precondition {
      condition     = !var.endpoint_public_access || var.endpoint_public_access_cidrs != null
      error_message = "endpoint_public_access needs endpoint_public_access_cidrs: name the networks that may reach the API server, for example [\"203.0.113.0/24\"]."
    }
    precondition {
      condition     = var.endpoint_public_access || var.endpoint_public_access_cidrs == null
      error_message = "endpoint_public_access_cidrs limit the public endpoint, which is closed: remove them, or set endpoint_public_access to true."
    }
  }

  # Without the policies EKS could not remove its resources when the cluster is deleted.
  depends_on = [
    aws_cloudwatch_log_group.this,
    aws_iam_role_policy_attachment.auto_mode,
    aws_iam_role_policy_attachment.auto_mode_node,
    aws_iam_role_policy_attachment.cluster,
    aws_iam_role_policy.secrets,
  ]
}

# Lets service accounts assume IAM roles (IRSA). AWS knows the issuer's
# certificate authority, so no thumbprint is set.
resource "aws_iam_openid_connect_provider" "this" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]

  tags = merge(var.tags, { Name = "${var.cluster_name}-irsa" })
}

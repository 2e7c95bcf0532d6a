data "aws_ec2_instance_type" "this" {
  for_each = toset(var.instance_types)

  region        = var.region
  instance_type = each.key
}

locals {
  # A group has one image, so its instance types have one architecture.
  architectures = setintersection(["arm64", "x86_64"], flatten([for t in data.aws_ec2_instance_type.this : t.supported_architectures]))
  arm64         = contains(local.architectures, "arm64")
  ami_type      = var.ami_type != null ? var.ami_type : local.arm64 ? "AL2023_ARM_64_STANDARD" : "AL2023_x86_64_STANDARD"
  bottlerocket  = startswith(local.ami_type, "BOTTLEROCKET_")

  # The network of services shows it too, if only that is known.
  ipv6 = var.ip_family == "ipv6" || strcontains(coalesce(var.cluster_service_cidr, "none"), ":")

  capacity_type = { OnDemand = "ON_DEMAND", ON_DEMAND = "ON_DEMAND", Spot = "SPOT", SPOT = "SPOT" }[var.capacity_type]

  # EKS has its own spelling of the effects.
  effects = { NoSchedule = "NO_SCHEDULE", PreferNoSchedule = "PREFER_NO_SCHEDULE", NoExecute = "NO_EXECUTE" }

  # Names are shortened to a prefix that other groups may have too. The tag is not.
  own_sizes    = [for g in data.aws_eks_node_group.existing : g.scaling_config[0].desired_size if try(g.tags["Name"], "") == local.node_tags["Name"] && g.status != "DELETING"]
  first_size   = coalesce(var.desired_size, var.min_size)
  desired_size = length(local.own_sizes) == 0 ? local.first_size : min(max(concat([var.min_size], local.own_sizes)...), var.max_size)

  # A group in zones must not move when the VPC gets more subnets.
  all_subnet_ids = concat(var.subnet_ids, var.later_subnet_ids)
  first_subnets  = slice(data.aws_subnet.this, 0, length(var.subnet_ids))
  later_subnets  = slice(data.aws_subnet.this, length(var.subnet_ids), length(local.all_subnet_ids))
  subnet_ids = var.availability_zones == null ? var.subnet_ids : tolist(concat(
    [for s in local.first_subnets : s.id if contains(var.availability_zones, s.availability_zone)],
    [for zone in var.availability_zones : [for s in local.later_subnets : s.id if s.availability_zone == zone][0]
    if !contains(local.first_subnets[*].availability_zone, zone) && contains(local.later_subnets[*].availability_zone, zone)],
  ))

  max_unavailable            = try(coalesce(var.max_unavailable, try(var.update_config.max_unavailable, null)), null)
  max_unavailable_percentage = try(coalesce(var.max_unavailable_percentage, try(var.update_config.max_unavailable_percentage, null)), local.max_unavailable == null ? 33 : null)

  # The name of the instances, which distinguishes them from Karpenter's.
  node_tags = merge(var.tags, { Name = "${var.cluster_name}-${var.name}" })
}

# The newest release of the image. AL2023_ARM_64_NVIDIA has the architecture arm64 and the
# variant nvidia.
locals {
  image_architecture = strcontains(local.ami_type, "_ARM_64") ? "arm64" : "x86_64"
  image_variant      = lower(join("", regexall("64_([A-Z]+)$", local.ami_type)[*][0]))
  image_version      = coalesce(var.kubernetes_version, "none")
  release_parameter = local.bottlerocket ? (
    "/aws/service/bottlerocket/aws-k8s-${join("-", compact([local.image_version, local.image_variant]))}/${local.image_architecture}/latest/image_version"
    ) : (
    "/aws/service/eks/optimized-ami/${local.image_version}/amazon-linux-2023/${local.image_architecture}/${coalesce(local.image_variant, "standard")}/recommended/release_version"
  )
}

data "aws_ssm_parameter" "release" {
  count = var.release_version == "latest" ? 1 : 0

  region = var.region
  name   = local.release_parameter

  lifecycle {
    precondition {
      condition     = var.kubernetes_version != null
      error_message = "release_version = latest needs kubernetes_version, which each release is for."
    }
  }
}

# A lifecycle rule cannot depend on a variable, so the number of nodes that an
# autoscaler has set is read. During a replacement there are two groups.
data "aws_eks_clusters" "all" {
  count = var.autoscaled ? 1 : 0

  region = var.region
}

# A cluster that does not exist yet has no groups.
data "aws_eks_node_groups" "all" {
  count = contains(flatten(data.aws_eks_clusters.all[*].names), var.cluster_name) ? 1 : 0

  region       = var.region
  cluster_name = var.cluster_name
}

locals {
  # The provider appends 26 characters to the prefix.
  existing = [for name in flatten(data.aws_eks_node_groups.all[*].names) : name if can(regex("^${substr(var.name, 0, 36)}-[0-9a-f]{26}$", name))]
}

data "aws_eks_node_group" "existing" {
  for_each = toset(local.existing)

  region          = var.region
  cluster_name    = var.cluster_name
  node_group_name = each.key
}

resource "aws_launch_template" "this" {
  region = var.region

  name_prefix            = "${substr("${var.cluster_name}-${var.name}", 0, 96)}-"
  description            = "Nodes of the group ${var.name} of the EKS cluster ${var.cluster_name}"
  update_default_version = true
  image_id               = var.ami_id
  user_data              = local.user_data == null ? null : base64encode(local.user_data)
  vpc_security_group_ids = length(var.security_group_ids) > 0 ? var.security_group_ids : null

  # IMDSv2 only.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = var.metadata_hop_limit
    instance_metadata_tags      = "disabled"
  }

  # Bottlerocket has its system on the first disk, and images and pods on the second.
  block_device_mappings {
    device_name = local.bottlerocket ? "/dev/xvdb" : "/dev/xvda"
    ebs {
      volume_size           = var.disk_size
      volume_type           = "gp3"
      encrypted             = true
      kms_key_id            = var.disk_kms_key_arn
      delete_on_termination = true
    }
  }

  dynamic "block_device_mappings" {
    for_each = local.bottlerocket ? [true] : []
    content {
      device_name = "/dev/xvda"
      ebs {
        volume_type           = "gp3"
        encrypted             = true
        kms_key_id            = var.disk_kms_key_arn
        delete_on_termination = true
      }
    }
  }

  monitoring {
    enabled = var.detailed_monitoring
  }

  dynamic "tag_specifications" {
    for_each = ["instance", "network-interface", "volume"]
    content {
      resource_type = tag_specifications.value
      tags          = local.node_tags
    }
  }

  tags = var.tags

  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = !local.custom_ami || var.user_data != null || alltrue([for v in [var.cluster_endpoint, var.cluster_certificate_authority_data, var.cluster_service_cidr] : v != null])
      error_message = "ami_id needs cluster_endpoint, cluster_certificate_authority_data and cluster_service_cidr, which are outputs of the cluster's module, or user_data with which nodes join."
    }
    precondition {
      condition     = !local.custom_ami || (var.ami_type == null && var.release_version == null)
      error_message = "ami_id names the image: remove ami_type and release_version."
    }
  }
}

resource "aws_eks_node_group" "this" {
  region = var.region

  cluster_name = var.cluster_name
  # The provider appends 26 characters to the prefix, and EKS allows 63.
  node_group_name_prefix = "${substr(var.name, 0, 36)}-"
  node_role_arn          = local.node_role_arn
  subnet_ids             = local.subnet_ids

  version              = local.custom_ami ? null : var.kubernetes_version
  release_version      = var.release_version == "latest" ? data.aws_ssm_parameter.release[0].insecure_value : var.release_version
  ami_type             = local.custom_ami ? null : local.ami_type
  instance_types       = var.instance_types
  capacity_type        = local.capacity_type
  force_update_version = var.force_update
  labels               = var.labels

  launch_template {
    id      = aws_launch_template.this.id
    version = aws_launch_template.this.latest_version
  }

  scaling_config {
    min_size     = var.min_size
    max_size     = var.max_size
    desired_size = local.desired_size
  }

  update_config {
    max_unavailable            = local.max_unavailable
    max_unavailable_percentage = local.max_unavailable_percentage
  }

  node_repair_config {
    enabled = var.node_repair
  }

  dynamic "taint" {
    for_each = var.taints
    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = local.effects[taint.value.effect]
    }
  }

  timeouts {
    create = var.timeouts.create
    update = var.timeouts.update
    delete = var.timeouts.delete
  }

  tags = local.node_tags

  lifecycle {
    # Changes that EKS cannot make in place replace the group, the new nodes first.
    create_before_destroy = true

    precondition {
      condition     = length(local.subnet_ids) > 0
      error_message = "None of subnet_ids is in availability_zones: set subnets of these zones, or other zones."
    }
    precondition {
      condition     = length(local.architectures) <= 1
      error_message = "instance_types mixes arm64 and x86_64: a node group has one image. Create two node groups."
    }
    precondition {
      condition     = length(local.architectures) > 1 || strcontains(local.ami_type, "_ARM_64") == local.arm64
      error_message = "ami_type does not fit the architecture of instance_types: remove it, or set one of that architecture, for example AL2023_ARM_64_STANDARD or BOTTLEROCKET_x86_64."
    }
    precondition {
      condition     = !local.ipv6 || alltrue([for t in data.aws_ec2_instance_type.this : t.hypervisor != "xen"])
      error_message = "instance_types of a cluster with IPv6 must be built on the Nitro system, for example m6i.large: older ones have no prefixes of addresses."
    }
    precondition {
      condition     = var.min_size <= var.max_size
      error_message = "min_size must not be greater than max_size."
    }
    precondition {
      condition     = local.desired_size >= var.min_size && local.desired_size <= var.max_size
      error_message = "desired_size must be between min_size and max_size."
    }
    precondition {
      condition     = length([for v in [var.max_unavailable, var.max_unavailable_percentage, var.update_config] : true if v != null]) <= 1
      error_message = "Set only one of max_unavailable, max_unavailable_percentage and update_config."
    }
  }

  # Without their policies, nodes could neither join nor be drained.
  depends_on = [aws_iam_role_policy_attachment.node]
}

# EKS returns the name of the Auto Scaling group, not its instances. They are looked
# up by their EKS tags, separately for each subnet: a subnet has one zone, and
# the number of subnets is known before any instance exists.
data "aws_subnet" "this" {
  count = length(local.all_subnet_ids)

  region = var.region
  id     = local.all_subnet_ids[count.index]
}

data "aws_instances" "this" {
  count = length(local.all_subnet_ids)

  region               = var.region
  instance_state_names = ["pending", "running"]

  filter {
    name   = "tag:eks:cluster-name"
    values = [var.cluster_name]
  }
  filter {
    name   = "tag:eks:nodegroup-name"
    values = [aws_eks_node_group.this.node_group_name]
  }
  filter {
    name   = "subnet-id"
    values = [local.all_subnet_ids[count.index]]
  }

  depends_on = [aws_eks_node_group.this]
}

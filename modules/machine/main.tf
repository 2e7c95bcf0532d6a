locals {
  bottlerocket = var.os == "Bottlerocket"
  spot         = contains(["Spot", "SPOT"], var.capacity_type)

  # Inputs that are not set are read from EKS.
  lookup = anytrue([
    var.cluster_endpoint == null,
    var.cluster_certificate_authority_data == null,
    var.cluster_service_cidr == null,
    length(var.security_group_ids) == 0,
  ])

  endpoint    = var.cluster_endpoint != null ? var.cluster_endpoint : data.aws_eks_cluster.this[0].endpoint
  certificate = var.cluster_certificate_authority_data != null ? var.cluster_certificate_authority_data : data.aws_eks_cluster.this[0].certificate_authority[0].data

  # A cluster has services of one family. EKS does not name a network of the other.
  networks     = one(data.aws_eks_cluster.this[*].kubernetes_network_config[0])
  service_cidr = var.cluster_service_cidr != null ? var.cluster_service_cidr : local.networks.ip_family == "ipv6" ? local.networks.service_ipv6_cidr : local.networks.service_ipv4_cidr

  security_group_ids = length(var.security_group_ids) > 0 ? var.security_group_ids : [data.aws_eks_cluster.this[0].vpc_config[0].cluster_security_group_id]

  # The name selects the subnet, so that machines spread over zones and none moves
  # when it is planned again.
  candidates = [for subnet in data.aws_subnet.this : subnet.id if var.availability_zone == null || subnet.availability_zone == var.availability_zone]
  subnet_id  = length(local.candidates) == 0 ? null : local.candidates[parseint(substr(sha256(var.name), 0, 8), 16) % length(local.candidates)]

  architecture = contains(data.aws_ec2_instance_type.this.supported_architectures, "arm64") ? "arm64" : "x86_64"
  ami_parameters = {
    AL2023       = "/aws/service/eks/optimized-ami/${var.kubernetes_version}/amazon-linux-2023/${local.architecture}/standard/recommended/image_id"
    Bottlerocket = "/aws/service/bottlerocket/aws-k8s-${var.kubernetes_version}/${local.architecture}/latest/image_id"
  }
  ami_id = var.ami_id != null ? var.ami_id : data.aws_ssm_parameter.ami[0].insecure_value

  tags = merge(var.tags, {
    Name                                        = var.name
    "kubernetes.io/cluster/${var.cluster_name}" = "owned"
  })
}

data "aws_eks_cluster" "this" {
  count = local.lookup ? 1 : 0

  region = var.region
  name   = var.cluster_name
}

data "aws_subnet" "this" {
  count = length(var.subnet_ids)

  region = var.region
  id     = var.subnet_ids[count.index]
}

data "aws_ec2_instance_type" "this" {
  region        = var.region
  instance_type = var.instance_type
}

data "aws_ssm_parameter" "ami" {
  count = var.ami_id == null ? 1 : 0

  region = var.region
  name   = local.ami_parameters[var.os]
}

resource "aws_instance" "this" {
  region = var.region

  ami                    = local.ami_id
  instance_type          = var.instance_type
  subnet_id              = local.subnet_id
  vpc_security_group_ids = local.security_group_ids
  iam_instance_profile   = local.instance_profile_name
  user_data_base64       = base64encode(local.user_data)
  monitoring             = var.detailed_monitoring

  # IMDSv2 only.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = var.metadata_hop_limit
    instance_metadata_tags      = "disabled"
  }

  # The node's name is the instance's private name, in its old form.
  private_dns_name_options {
    hostname_type = "ip-name"
  }

  root_block_device {
    # Bottlerocket has its system here, and images and pods on the second disk.
    volume_size = local.bottlerocket ? null : var.disk_size
    volume_type = "gp3"
    encrypted   = true
    kms_key_id  = var.disk_kms_key_arn
    tags        = local.tags
  }

  dynamic "ebs_block_device" {
    for_each = local.bottlerocket ? [true] : []
    content {
      device_name = "/dev/xvdb"
      volume_size = var.disk_size
      volume_type = "gp3"
      encrypted   = true
      kms_key_id  = var.disk_kms_key_arn
      tags        = local.tags
    }
  }

  dynamic "instance_market_options" {
    for_each = local.spot ? [true] : []
    content {
      market_type = "spot"
      spot_options {
        spot_instance_type             = "one-time"
        instance_interruption_behavior = "terminate"
      }
    }
  }

  tags = local.tags

  lifecycle {
    # A machine is never changed but replaced, after its pods were moved. A newer
    # image or other labels must not replace this one, nor must a volume that the EBS
    # CSI driver attaches: with a block of ebs_block_device, the provider would remove
    # all others.
    ignore_changes = [ami, user_data_base64, subnet_id, ebs_block_device]

    precondition {
      condition     = length(local.candidates) > 0
      error_message = "None of subnet_ids is in availability_zone: set a subnet of that zone, or another zone."
    }
    precondition {
      condition     = !strcontains(local.service_cidr, ":") || data.aws_ec2_instance_type.this.hypervisor != "xen"
      error_message = "instance_type of a cluster with IPv6 must be built on the Nitro system, for example m6i.large: older ones have no prefixes of addresses."
    }
  }

  depends_on = [aws_eks_access_entry.node, aws_iam_role_policy_attachment.node]
}

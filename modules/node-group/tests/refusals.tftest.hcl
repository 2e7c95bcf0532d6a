mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_subnet" {
    defaults = { availability_zone = "eu-central-1a" }
  }
  mock_data "aws_ec2_instance_type" {
    defaults = { supported_architectures = ["x86_64"] }
  }
  mock_data "aws_instances" {
    defaults = { ids = ["i-0bbbbbbbbbbbbbbbb", "i-0aaaaaaaaaaaaaaaa"] }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-workers-node" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
  }
  mock_resource "aws_eks_node_group" {
    defaults = {
      arn             = "arn:aws:eks:eu-central-1:123456789012:nodegroup/demo/workers-2025/0"
      node_group_name = "workers-2025"
      resources       = [{ autoscaling_groups = [{ name = "eks-workers-2025" }], remote_access_security_group_id = "" }]
    }
  }
}

variables {
  name               = "workers"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  subnet_ids         = ["subnet-a"]
}

run "a_name_with_a_dot" {
  command = plan
  variables {
    name = "workers.eu"
  }
  # Says: name must begin with a letter or digit
  expect_failures = [var.name]
}

run "a_cluster_name_with_a_dot" {
  command = plan
  variables {
    cluster_name = "demo.eu"
  }
  # Says: cluster_name must begin with a letter or digit
  expect_failures = [var.cluster_name]
}

run "a_version_with_a_patch" {
  command = plan
  variables {
    kubernetes_version = "1.33.1"
  }
  # Says: kubernetes_version must be a minor version without a patch
  expect_failures = [var.kubernetes_version]
}

run "a_zone_for_a_region" {
  command = plan
  variables {
    region = "eu-central-1a"
  }
  # Says: region must be the name of a region
  expect_failures = [var.region]
}

run "no_subnet" {
  command = plan
  variables {
    subnet_ids = []
  }
  # Says: subnet_ids must name at least one subnet
  expect_failures = [var.subnet_ids]
}

run "no_subnet_in_the_zones" {
  command = plan
  variables {
    availability_zones = ["eu-central-1b"]
  }
  # Says: None of subnet_ids is in availability_zones
  expect_failures = [aws_eks_node_group.this]
}

run "no_instance_type" {
  command = plan
  variables {
    instance_types = []
  }
  # Says: instance_types must contain between one and 20 instance types
  expect_failures = [var.instance_types]
}

run "a_family_for_an_instance_type" {
  command = plan
  variables {
    instance_types = ["m6i"]
  }
  # Says: instance_types must contain between one and 20 instance types
  expect_failures = [var.instance_types]
}

run "an_unknown_capacity_type" {
  command = plan
  variables {
    capacity_type = "spot"
  }
  # Says: capacity_type must be OnDemand or Spot
  expect_failures = [var.capacity_type]
}

run "amazon_linux_2" {
  command = plan
  variables {
    ami_type = "AL2_x86_64"
  }
  # Says: there are no new images of Amazon Linux 2
  expect_failures = [var.ami_type]
}

run "two_architectures" {
  command = plan
  variables {
    instance_types = ["m7g.large", "m6i.large"]
  }
  # Mocks are the same for all of them.
  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["arm64", "x86_64"] }
  }
  # Says: instance_types mixes arm64 and x86_64: a node group has one image
  expect_failures = [aws_eks_node_group.this]
}

run "an_unknown_ip_family" {
  command = plan
  variables {
    ip_family = "dual"
  }
  # Says: ip_family must be ipv4 or ipv6
  expect_failures = [var.ip_family]
}

run "an_instance_type_without_ipv6" {
  command = plan
  variables {
    instance_types = ["m4.large"]
    ip_family      = "ipv6"
  }
  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["x86_64"], hypervisor = "xen" }
  }
  # Says: instance_types of a cluster with IPv6 must be built on the Nitro system
  expect_failures = [aws_eks_node_group.this]
}

run "an_instance_type_without_ipv6_by_the_network_of_services" {
  command = plan
  variables {
    instance_types       = ["m4.large"]
    cluster_service_cidr = "fd12:3456::/108"
  }
  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["x86_64"], hypervisor = "xen" }
  }
  # Says: instance_types of a cluster with IPv6 must be built on the Nitro system
  expect_failures = [aws_eks_node_group.this]
}

run "an_image_of_another_architecture" {
  command = plan
  variables {
    instance_types = ["m7g.large"]
    ami_type       = "AL2023_x86_64_STANDARD"
  }
  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["arm64"] }
  }
  # Says: ami_type does not fit the architecture of instance_types
  expect_failures = [aws_eks_node_group.this]
}

run "an_arm64_image_for_x86_64" {
  command = plan
  variables {
    ami_type = "BOTTLEROCKET_ARM_64"
  }
  # Says: ami_type does not fit the architecture of instance_types
  expect_failures = [aws_eks_node_group.this]
}

run "a_disk_too_small" {
  command = plan
  variables {
    disk_size = 10
  }
  # Says: disk_size must be a whole number of GiB between 20 and 16384
  expect_failures = [var.disk_size]
}

run "a_negative_size" {
  command = plan
  variables {
    min_size = -1
  }
  # Says: min_size must not be negative
  expect_failures = [var.min_size]
}

run "no_room" {
  command = plan
  variables {
    max_size = 0
    min_size = 0
  }
  # Says: max_size must be at least 1
  expect_failures = [var.max_size]
}

run "min_size_above_max_size" {
  command = plan
  variables {
    min_size = 4
  }
  # Says: min_size must not be greater than max_size
  expect_failures = [aws_eks_node_group.this]
}

run "a_desired_size_beyond_the_limits" {
  command = plan
  variables {
    desired_size = 4
  }
  # Says: desired_size must be between min_size and max_size
  expect_failures = [aws_eks_node_group.this]
}

run "an_effect_as_eks_spells_it" {
  command = plan
  variables {
    taints = [{ key = "a", effect = "NO_SCHEDULE" }]
  }
  # Says: effect of taints must be NoSchedule, PreferNoSchedule or NoExecute
  expect_failures = [var.taints]
}

run "a_taint_twice" {
  command = plan
  variables {
    taints = [{ key = "a", effect = "NoSchedule" }, { key = "a", value = "b", effect = "NoSchedule" }]
  }
  # Says: taints must contain each pair of key and effect once
  expect_failures = [var.taints]
}

run "both_ways_of_update_config" {
  command = plan
  variables {
    update_config = { max_unavailable = 1, max_unavailable_percentage = 10 }
  }
  # Says: Set exactly one of max_unavailable and max_unavailable_percentage in update_config
  expect_failures = [var.update_config]
}

run "two_forms_at_once" {
  command = plan
  variables {
    update_config   = { max_unavailable = 1 }
    max_unavailable = 2
  }
  # Says: Set only one of max_unavailable, max_unavailable_percentage and update_config
  expect_failures = [aws_eks_node_group.this]
}

run "none_unavailable" {
  command = plan
  variables {
    max_unavailable = 0
  }
  # Says: max_unavailable must be between 1 and 100
  expect_failures = [var.max_unavailable]
}

run "more_than_all" {
  command = plan
  variables {
    max_unavailable_percentage = 101
  }
  # Says: max_unavailable_percentage must be between 1 and 100
  expect_failures = [var.max_unavailable_percentage]
}

run "a_hop_limit_too_high" {
  command = plan
  variables {
    metadata_hop_limit = 3
  }
  # Says: metadata_hop_limit must be 1 (nodes only) or 2 (pods too)
  expect_failures = [var.metadata_hop_limit]
}

run "a_name_for_a_role" {
  command = plan
  variables {
    node_role_arn = "nodes"
  }
  # Says: node_role_arn must be the ARN of an IAM role
  expect_failures = [var.node_role_arn]
}

run "a_name_for_an_image" {
  command = plan
  variables {
    ami_id = "al2023"
  }
  # Says: ami_id must be the id of an image
  expect_failures = [var.ami_id]
}

run "an_image_that_cannot_join" {
  command = plan
  variables {
    ami_id = "ami-0123456789abcdef0"
  }
  # Says: ami_id needs cluster_endpoint, cluster_certificate_authority_data and cluster_service_cidr
  expect_failures = [aws_launch_template.this]
}

run "two_images" {
  command = plan
  variables {
    ami_id    = "ami-0123456789abcdef0"
    ami_type  = "AL2023_x86_64_STANDARD"
    user_data = "#!/bin/sh"
  }
  # Says: ami_id names the image: remove ami_type and release_version
  expect_failures = [aws_launch_template.this]
}

run "a_date_for_a_release" {
  command = plan
  variables {
    release_version = "20250715"
  }
  # Says: release_version must be latest or a release of the image
  expect_failures = [var.release_version]
}

run "the_newest_release_of_an_unknown_version" {
  command = plan
  variables {
    kubernetes_version = null
    release_version    = "latest"
  }
  # Says: release_version = latest needs kubernetes_version
  expect_failures = [data.aws_ssm_parameter.release]
}

run "a_label_that_stops_the_kubelet" {
  command = plan
  variables {
    labels = { "node-role.kubernetes.io/worker" = "" }
  }
  # Says: the kubelet does not start with others
  expect_failures = [var.labels]
}

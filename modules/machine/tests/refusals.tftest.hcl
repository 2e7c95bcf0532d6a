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
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "ami-0123456789abcdef0" }
  }
  mock_data "aws_eks_cluster" {
    defaults = {
      endpoint                  = "https://LOOKED.UP"
      certificate_authority     = [{ data = "TE9PS0VE" }]
      kubernetes_network_config = [{ service_ipv4_cidr = "10.100.0.0/16", service_ipv6_cidr = "", ip_family = "ipv4", elastic_load_balancing = [] }]
      vpc_config = [{
        cluster_security_group_id = "sg-cluster", security_group_ids = [], subnet_ids = [], vpc_id = "vpc-1"
        endpoint_private_access   = true, endpoint_public_access = false, public_access_cidrs = []
      }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-node-1-machine" }
  }
  mock_resource "aws_instance" {
    defaults = {
      id                = "i-0aaaaaaaaaaaaaaaa"
      availability_zone = "eu-central-1a"
      private_dns       = "ip-10-0-1-2.eu-central-1.compute.internal"
      private_ip        = "10.0.1.2"
    }
  }
}

variables {
  name                               = "node-1"
  cluster_name                       = "demo"
  cluster_endpoint                   = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  cluster_certificate_authority_data = "Q0E="
  cluster_service_cidr               = "172.20.0.0/16"
  kubernetes_version                 = "1.33"
  region                             = "eu-central-1"
  subnet_ids                         = ["subnet-a", "subnet-b"]
  security_group_ids                 = ["sg-nodes"]
}

run "a_name_with_a_slash" {
  command = plan
  variables {
    name = "a/b"
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

run "an_endpoint_without_a_scheme" {
  command = plan
  variables {
    cluster_endpoint = "ABCD.gr7.eu-central-1.eks.amazonaws.com"
  }
  # Says: cluster_endpoint must be the address of the API server with its scheme
  expect_failures = [var.cluster_endpoint]
}

run "a_certificate_in_plain_text" {
  command = plan
  variables {
    cluster_certificate_authority_data = "-----BEGIN CERTIFICATE-----"
  }
  # Says: cluster_certificate_authority_data must be base64
  expect_failures = [var.cluster_certificate_authority_data]
}

run "no_network_for_services" {
  command = plan
  variables {
    cluster_service_cidr = "172.20.0.0"
  }
  # Says: cluster_service_cidr must be a network in CIDR notation
  expect_failures = [var.cluster_service_cidr]
}

run "a_version_with_a_patch" {
  command = plan
  variables {
    kubernetes_version = "v1.33.1"
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

run "a_family_for_an_instance_type" {
  command = plan
  variables {
    instance_type = "m6i"
  }
  # Says: instance_type must be an instance type
  expect_failures = [var.instance_type]
}

run "an_unknown_capacity_type" {
  command = plan
  variables {
    capacity_type = "spot"
  }
  # Says: capacity_type must be OnDemand or Spot
  expect_failures = [var.capacity_type]
}

run "an_unknown_system" {
  command = plan
  variables {
    os = "AL2"
  }
  # Says: os must be AL2023 or Bottlerocket
  expect_failures = [var.os]
}

run "a_name_for_an_image" {
  command = plan
  variables {
    ami_id = "eks-node"
  }
  # Says: ami_id must be the id of an image
  expect_failures = [var.ami_id]
}

run "no_subnet" {
  command = plan
  variables {
    subnet_ids = []
  }
  # Says: subnet_ids must name at least one subnet
  expect_failures = [var.subnet_ids]
}

run "a_zone_without_a_subnet" {
  command = plan
  variables {
    availability_zone = "eu-central-1c"
  }
  # Says: None of subnet_ids is in availability_zone
  expect_failures = [aws_instance.this]
}

run "a_label_that_stops_the_kubelet" {
  command = plan
  variables {
    labels = { "node-role.kubernetes.io/worker" = "" }
  }
  # Says: the kubelet does not start with others
  expect_failures = [var.labels]
}

run "an_effect_as_eks_spells_it" {
  command = plan
  variables {
    taints = [{ key = "a", effect = "NO_SCHEDULE" }]
  }
  # Says: effect of taints must be NoSchedule, PreferNoSchedule or NoExecute
  expect_failures = [var.taints]
}

run "a_disk_too_small" {
  command = plan
  variables {
    disk_size = 10
  }
  # Says: disk_size must be a whole number of GiB between 20 and 16384
  expect_failures = [var.disk_size]
}

run "a_hop_limit_too_high" {
  command = plan
  variables {
    metadata_hop_limit = 3
  }
  # Says: metadata_hop_limit must be 1 (the node only) or 2 (pods too)
  expect_failures = [var.metadata_hop_limit]
}

run "an_instance_type_without_ipv6" {
  command = plan
  variables {
    instance_type        = "m4.large"
    cluster_service_cidr = "fd12:3456::/108"
  }
  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["x86_64"], hypervisor = "xen" }
  }
  # Says: instance_type of a cluster with IPv6 must be built on the Nitro system
  expect_failures = [aws_instance.this]
}

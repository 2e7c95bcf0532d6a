mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012", arn = "arn:aws:sts::123456789012:assumed-role/capt/session" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_eks_addon_version" {
    defaults = { version = "v1.0.0-eksbuild.1" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      arn                   = "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
      endpoint              = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
      certificate_authority = [{ data = "Q0E=" }]
      identity              = [{ oidc = [{ issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }] }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-cluster" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_security_group" {
    defaults = { id = "sg-nodes" }
  }
}

variables {
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-a", "subnet-b"]
}

run "a_public_endpoint_without_networks" {
  command = plan
  variables {
    endpoint_public_access = true
  }
  # Says: endpoint_public_access needs endpoint_public_access_cidrs
  expect_failures = [aws_eks_cluster.this]
}

run "an_empty_list_of_networks" {
  command = plan
  variables {
    endpoint_public_access       = true
    endpoint_public_access_cidrs = []
  }
  # Says: endpoint_public_access_cidrs must not be empty: EKS reads an empty list as 0.0.0.0/0
  expect_failures = [var.endpoint_public_access_cidrs]
}

run "an_address_for_a_network" {
  command = plan
  variables {
    endpoint_public_access       = true
    endpoint_public_access_cidrs = ["203.0.113.7"]
  }
  # Says: a single address is 203.0.113.7/32
  expect_failures = [var.endpoint_public_access_cidrs]
}

run "networks_for_a_closed_endpoint" {
  command = plan
  variables {
    endpoint_public_access_cidrs = ["203.0.113.0/24"]
  }
  # Says: endpoint_public_access_cidrs limit the public endpoint, which is closed
  expect_failures = [aws_eks_cluster.this]
}

run "no_endpoint_at_all" {
  command = plan
  variables {
    endpoint_private_access = false
  }
  # Says: or the API server is unreachable
  expect_failures = [aws_eks_cluster.this]
}

run "the_internet_as_a_private_network" {
  command = plan
  variables {
    private_access_cidrs = ["0.0.0.0/0"]
  }
  # Says: and not the whole internet
  expect_failures = [var.private_access_cidrs]
}

run "a_name_with_a_dot" {
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
    kubernetes_version = "v1.33.1"
  }
  # Says: kubernetes_version must be a minor version without a patch, for example 1.33
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

run "a_name_for_a_vpc" {
  command = plan
  variables {
    vpc_id = "demo-vpc"
  }
  # Says: vpc_id must be the id of a VPC
  expect_failures = [var.vpc_id]
}

run "one_subnet" {
  command = plan
  variables {
    subnet_ids = ["subnet-a"]
  }
  # Says: subnet_ids must name at least two subnets
  expect_failures = [var.subnet_ids]
}

run "one_control_plane_subnet" {
  command = plan
  variables {
    control_plane_subnet_ids = ["subnet-a"]
  }
  # Says: control_plane_subnet_ids must name at least two subnets
  expect_failures = [var.control_plane_subnet_ids]
}

run "no_network_for_services" {
  command = plan
  variables {
    service_ipv4_cidr = "172.20.0.0"
  }
  # Says: service_ipv4_cidr must be a network in CIDR notation
  expect_failures = [var.service_ipv4_cidr]
}

run "access_by_config_map_alone" {
  command = plan
  variables {
    authentication_mode = "CONFIG_MAP"
  }
  # Says: access entries do not work with CONFIG_MAP
  expect_failures = [var.authentication_mode]
}

run "a_principal_that_is_not_an_arn" {
  command = plan
  variables {
    access_entries = { admin = { principal_arn = "admin" } }
  }
  # Says: principal_arn of access_entries must be the ARN of an IAM role or user
  expect_failures = [var.access_entries]
}

run "an_iam_policy_for_an_access_policy" {
  command = plan
  variables {
    access_entries = {
      admin = {
        principal_arn       = "arn:aws:iam::123456789012:role/admin"
        policy_associations = { admin = { policy_arn = "arn:aws:iam::aws:policy/AdministratorAccess" } }
      }
    }
  }
  # Says: policy_arn of access_entries must be an EKS access policy
  expect_failures = [var.access_entries]
}

run "a_namespace_scope_without_namespaces" {
  command = plan
  variables {
    access_entries = {
      team = {
        principal_arn = "arn:aws:iam::123456789012:role/team"
        policy_associations = {
          edit = {
            policy_arn   = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"
            access_scope = { type = "namespace" }
          }
        }
      }
    }
  }
  # Says: or the type namespace, with namespaces
  expect_failures = [var.access_entries]
}

run "an_alias_for_a_key" {
  command = plan
  variables {
    kms_key_arn = "alias/secrets"
  }
  # Says: an alias is not supported
  expect_failures = [var.kms_key_arn]
}

run "a_deletion_window_too_short" {
  command = plan
  variables {
    kms_deletion_window_days = 1
  }
  # Says: kms_deletion_window_days must be between 7 and 30
  expect_failures = [var.kms_deletion_window_days]
}

run "an_unknown_log" {
  command = plan
  variables {
    log_types = ["kubelet"]
  }
  # Says: log_types may contain api, audit, authenticator, controllerManager and scheduler
  expect_failures = [var.log_types]
}

run "a_retention_that_cloudwatch_does_not_support" {
  command = plan
  variables {
    log_retention_days = 10
  }
  # Says: log_retention_days must be a number that CloudWatch supports
  expect_failures = [var.log_retention_days]
}

run "settings_that_are_not_json" {
  command = plan
  variables {
    cluster_addons = { coredns = { configuration_values = "replicaCount: 3" } }
  }
  # Says: configuration_values of cluster_addons must be JSON
  expect_failures = [var.cluster_addons]
}

run "a_version_and_the_newest" {
  command = plan
  variables {
    cluster_addons = { coredns = { version = "v1.0.0", most_recent = true } }
  }
  # Says: Set version or most_recent in an add-on of cluster_addons, not both
  expect_failures = [var.cluster_addons]
}

run "an_unknown_way_to_resolve_conflicts" {
  command = plan
  variables {
    cluster_addons = { coredns = { version = "v1.0.0", resolve_conflicts_on_create = "PRESERVE" } }
  }
  # Says: resolve_conflicts_on_create of cluster_addons must be NONE or OVERWRITE
  expect_failures = [var.cluster_addons]
}

run "a_name_for_a_role" {
  command = plan
  variables {
    iam_role_arn = "control-plane"
  }
  # Says: iam_role_arn must be the ARN of an IAM role
  expect_failures = [var.iam_role_arn]
}

run "an_unknown_support_type" {
  command = plan
  variables {
    support_type = "LONG"
  }
  # Says: support_type must be EXTENDED or STANDARD
  expect_failures = [var.support_type]
}

run "an_unknown_identity" {
  command = plan
  variables {
    addon_identity = "Node"
  }
  # Says: addon_identity must be PodIdentity or IRSA
  expect_failures = [var.addon_identity]
}

run "an_alias_for_a_volume_key" {
  command = plan
  variables {
    ebs_csi_kms_key_arns = ["alias/ebs"]
  }
  # Says: ebs_csi_kms_key_arns must contain ARNs of KMS keys
  expect_failures = [var.ebs_csi_kms_key_arns]
}

run "a_name_for_the_drivers_policy" {
  command = plan
  variables {
    ebs_csi_policy_arn = "AmazonEBSCSIDriverPolicy"
  }
  # Says: ebs_csi_policy_arn must be the ARN of an IAM policy
  expect_failures = [var.ebs_csi_policy_arn]
}

run "a_name_for_a_zone_of_external_dns" {
  command = plan
  variables {
    external_dns_hosted_zones = ["example.com"]
  }
  # Says: external_dns_hosted_zones must contain ids of hosted zones
  expect_failures = [var.external_dns_hosted_zones]
}

run "every_zone_of_cert_manager" {
  command = plan
  variables {
    cert_manager_hosted_zones = ["*"]
  }
  # Says: cert_manager_hosted_zones must contain ids of hosted zones
  expect_failures = [var.cert_manager_hosted_zones]
}

run "external_dns_without_zones" {
  command = plan
  variables {
    external_dns_role = true
  }
  # Says: external_dns_role needs external_dns_hosted_zones
  expect_failures = [aws_iam_role_policy.addon]
}

run "cert_manager_without_zones" {
  command = plan
  variables {
    cert_manager_role = true
  }
  # Says: cert_manager_role needs cert_manager_hosted_zones
  expect_failures = [aws_iam_role_policy.addon]
}

run "an_account_of_an_unknown_controller" {
  command = plan
  variables {
    addon_service_accounts = { nginx = { namespace = "a", name = "b" } }
  }
  # Says: Keys of addon_service_accounts must be ebs_csi_driver
  expect_failures = [var.addon_service_accounts]
}

run "every_account_of_a_namespace" {
  command = plan
  variables {
    addon_service_accounts = { external_dns = { namespace = "dns", name = "*" } }
  }
  # Says: addon_service_accounts must have the names of a namespace and a service account
  expect_failures = [var.addon_service_accounts]
}

run "pod_identity_without_its_agent" {
  command = plan
  variables {
    aws_load_balancer_controller_role = true
    cluster_addons                    = { vpc-cni = {} }
  }
  # Says: need the add-on eks-pod-identity-agent
  expect_failures = [aws_eks_pod_identity_association.addon]
}

run "two_associations_of_one_service_account" {
  command = plan
  variables {
    cluster_addons = { eks-pod-identity-agent = {}, aws-ebs-csi-driver = { pod_identity_associations = [{ role_arn = "arn:aws:iam::123456789012:role/ebs", service_account = "ebs-csi-controller-sa" }] } }
    ebs_csi_driver = true
  }
  # Says: for which EKS allows one Pod Identity association
  expect_failures = [aws_eks_pod_identity_association.addon]
}

run "two_roles_of_one_service_account" {
  command = plan
  variables {
    cluster_addons                    = { eks-pod-identity-agent = {} }
    ebs_csi_driver                    = true
    aws_load_balancer_controller_role = true
    addon_service_accounts            = { aws_load_balancer_controller = { namespace = "kube-system", name = "ebs-csi-controller-sa" } }
  }
  # Says: change addon_service_accounts, or remove the account from pod_identity_associations
  expect_failures = [aws_eks_pod_identity_association.addon]
}

run "two_entries_of_the_creator" {
  command = plan
  variables {
    cluster_creator_entry = true
  }
  # Says: set cluster_creator_admin to false
  expect_failures = [aws_eks_access_entry.creator]
}

run "a_policy_without_a_name" {
  command = plan
  variables {
    access_entries = { admin = { principal_arn = "arn:aws:iam::123456789012:role/admin", policy_associations = { admin = {} } } }
  }
  # Says: Set policy_arn or policy_name
  expect_failures = [var.access_entries]
}

run "an_unknown_pool_of_auto_mode" {
  command = plan
  variables {
    auto_mode = { enabled = true, node_pools = ["gpu"] }
  }
  # Says: node_pools of auto_mode must contain general-purpose, system or both
  expect_failures = [var.auto_mode]
}

run "a_name_as_role_of_auto_mode" {
  command = plan
  variables {
    auto_mode = { enabled = true, node_role_arn = "auto" }
  }
  # Says: node_role_arn of auto_mode must be the ARN of an IAM role
  expect_failures = [var.auto_mode]
}

run "an_unknown_ip_family" {
  command = plan
  variables {
    ip_family = "dual"
  }
  # Says: ip_family must be ipv4 or ipv6
  expect_failures = [var.ip_family]
}

run "services_of_ipv4_with_ipv6" {
  command = plan
  variables {
    ip_family         = "ipv6"
    service_ipv4_cidr = "172.20.0.0/16"
  }
  # Says: With ip_family = ipv6 EKS chooses the network of services
  expect_failures = [aws_eks_cluster.this]
}

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_eks_addon_version" {
    defaults = { version = "v1.0.0-eksbuild.1" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "1.33.0-20260901" }
  }
  mock_data "aws_subnet" {
    defaults = { availability_zone = "eu-central-1a" }
  }
  mock_data "aws_instances" {
    defaults = { ids = ["i-0aaaaaaaaaaaaaaaa"] }
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
    defaults = { arn = "arn:aws:iam::123456789012:role/Mocked" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_eks_node_group" {
    defaults = {
      arn             = "arn:aws:eks:eu-central-1:123456789012:nodegroup/demo/system-2025/0"
      node_group_name = "system-2025"
    }
  }
  mock_resource "aws_eks_fargate_profile" {
    defaults = { arn = "arn:aws:eks:eu-central-1:123456789012:fargateprofile/demo/x/0" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/Karpenter-demo"
    }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/Mocked" }
  }
}

# Distinguishes the roles, which a mock would give one id.
override_resource {
  target = module.karpenter_iam.aws_iam_role.this
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterController-demo" }
}
override_resource {
  target = module.karpenter_iam.aws_iam_role.node
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterNode-demo" }
}

variables {
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-a", "subnet-b"]
}

run "an_unknown_compute" {
  command = plan
  variables {
    compute = "Nodes"
  }
  # Says: compute must be ManagedNodeGroup, Fargate, AutoMode or None
  expect_failures = [var.compute]
}

run "an_unknown_identity" {
  command = plan
  variables {
    karpenter_identity = "irsa"
  }
  # Says: karpenter_identity must be IRSA or PodIdentity
  expect_failures = [var.karpenter_identity]
}

run "pod_identity_on_fargate" {
  command = plan
  variables {
    compute            = "Fargate"
    karpenter_identity = "PodIdentity"
  }
  # Says: Pod Identity does not work on Fargate
  expect_failures = [output.karpenter_iam_role_arn]
}

run "karpenter_nowhere" {
  command = plan
  variables {
    compute            = "Fargate"
    fargate_namespaces = ["flux-system"]
  }
  # Says: karpenter_namespace must be one of fargate_namespaces
  expect_failures = [output.karpenter_iam_role_arn]
}

run "an_empty_list_of_networks" {
  command = plan
  variables {
    endpoint_public_access       = true
    endpoint_public_access_cidrs = []
  }
  # Says: endpoint_public_access_cidrs must not be empty
  expect_failures = [var.endpoint_public_access_cidrs]
}

run "a_version_with_a_patch" {
  command = plan
  variables {
    kubernetes_version = "1.33.1"
  }
  # Says: kubernetes_version must be a minor version without a patch
  expect_failures = [var.kubernetes_version]
}

run "one_subnet_of_the_compute" {
  command = plan

  variables {
    compute_subnet_ids = ["subnet-a"]
  }
  # Says: compute_subnet_ids must name at least two subnets
  expect_failures = [var.compute_subnet_ids]
}

run "an_existing_instance_profile_that_is_not_used" {
  command = plan
  variables {
    karpenter_instance_profile_name = "nodes"
  }
  # Says: set karpenter_create_instance_profile to false to use it
  expect_failures = [output.karpenter_instance_profile_name]
}

run "volumes_on_fargate" {
  command = plan
  variables {
    compute        = "Fargate"
    ebs_csi_driver = true
  }
  # Says: The EBS CSI driver does not run on Fargate
  expect_failures = [output.addon_role_arns]
}

run "a_second_system_group" {
  command = plan
  variables {
    node_groups = { system = {} }
  }
  # Says: node_groups must not contain system
  expect_failures = [var.node_groups]
}

run "an_unknown_architecture" {
  command = plan
  variables {
    karpenter_node_pool = { architectures = ["x86_64"] }
  }
  # Says: architectures of karpenter_node_pool must contain amd64, arm64 or both
  expect_failures = [var.karpenter_node_pool]
}

run "an_unknown_capacity" {
  command = plan
  variables {
    karpenter_node_pool = { capacity_types = ["Spot"] }
  }
  # Says: capacity_types of karpenter_node_pool must contain on-demand, spot or reserved
  expect_failures = [var.karpenter_node_pool]
}

run "an_unknown_consolidation" {
  command = plan
  variables {
    karpenter_node_pool = { consolidation_policy = "Always" }
  }
  # Says: consolidation_policy of karpenter_node_pool must be WhenEmpty
  expect_failures = [var.karpenter_node_pool]
}

run "a_budget_without_a_duration" {
  command = plan
  variables {
    karpenter_node_pool = { budgets = [{ nodes = "0", schedule = "@daily" }] }
  }
  # Says: budgets of karpenter_node_pool must have nodes
  expect_failures = [var.karpenter_node_pool]
}

run "an_unknown_effect" {
  command = plan
  variables {
    karpenter_node_pool = { taints = [{ key = "a", effect = "NO_SCHEDULE" }] }
  }
  # Says: effect of taints in karpenter_node_pool
  expect_failures = [var.karpenter_node_pool]
}

run "an_alias_without_a_release" {
  command = plan
  variables {
    karpenter_node_class = { ami_alias = "al2023" }
  }
  # Says: ami_alias of karpenter_node_class must be a family and a release
  expect_failures = [var.karpenter_node_class]
}

run "images_without_a_family" {
  command = plan
  variables {
    karpenter_node_class = { ami_ids = ["ami-0123456789abcdef0"] }
  }
  # Says: ami_ids of karpenter_node_class must be ids of images
  expect_failures = [var.karpenter_node_class]
}

run "an_unknown_family" {
  command = plan
  variables {
    karpenter_node_class = { ami_ids = ["ami-0123456789abcdef0"], ami_family = "Ubuntu" }
  }
  # Says: ami_family of karpenter_node_class must be AL2023, Bottlerocket or Custom
  expect_failures = [var.karpenter_node_class]
}

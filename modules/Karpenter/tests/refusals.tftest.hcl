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
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/KarpenterController" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
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

mock_provider "helm" {
  mock_resource "helm_release" {
    defaults = { status = "deployed" }
  }
}

variables {
  karpenter_chart_version    = "1.14.1"
  cluster_name               = "demo"
  oidc_provider_arn          = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  oidc_issuer_url            = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  node_instance_profile_name = "KarpenterNodeInstanceProfile"
  cluster_endpoint           = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  karpenter_configs          = { main = { name = "karpenter", namespace = "karpenter" } }
  iam_roles                  = { karpenter_controller = { name = "KarpenterController" } }
  iam_roles_attachments      = {}
}

run "a_version_with_a_v" {
  command = plan
  variables {
    karpenter_chart_version = "v1.14.1"
  }
  # Says: karpenter_chart_version must be a version of the chart without a v
  expect_failures = [var.karpenter_chart_version]
}

run "an_instance_profile_with_a_path" {
  command = plan
  variables {
    node_instance_profile_name = "path/name"
  }
  # Says: node_instance_profile_name must be a name for an instance profile
  expect_failures = [var.node_instance_profile_name]
}

run "an_endpoint_without_a_scheme" {
  command = plan
  variables {
    cluster_endpoint = "ABCD.gr7.eu-central-1.eks.amazonaws.com"
  }
  # Says: cluster_endpoint must be the address of the API server with its scheme
  expect_failures = [var.cluster_endpoint]
}

run "no_configuration" {
  command = plan
  variables {
    karpenter_configs = {}
  }
  # Says: karpenter_configs must contain at least one configuration
  expect_failures = [var.karpenter_configs]
}

run "a_release_name_too_long" {
  command = plan
  variables {
    karpenter_configs = { main = { name = "karpenter-karpenter-karpenter-karpenter-karpenter-karpenter", namespace = "karpenter" } }
  }
  # Says: and name at most 53 of them
  expect_failures = [var.karpenter_configs]
}

run "one_release_twice" {
  command = plan
  variables {
    karpenter_configs = { a = { name = "karpenter", namespace = "karpenter" }, b = { name = "karpenter", namespace = "karpenter" } }
  }
  # Says: karpenter_configs must contain each release
  expect_failures = [var.karpenter_configs]
}

run "a_configurations_version_with_a_v" {
  command = plan
  variables {
    karpenter_configs = { main = { name = "karpenter", namespace = "karpenter", version = "v1.14.1" } }
  }
  # Says: version of karpenter_configs must be a version of the chart without a v
  expect_failures = [var.karpenter_configs]
}

run "values_that_are_not_yaml" {
  command = plan
  variables {
    karpenter_configs = { main = { name = "karpenter", namespace = "karpenter", values = ["a: b: c"] } }
  }
  # Says: values of karpenter_configs must be YAML documents
  expect_failures = [var.karpenter_configs]
}

run "a_set_of_an_unknown_type" {
  command = plan
  variables {
    karpenter_configs = { main = { name = "karpenter", namespace = "karpenter", additional_sets = [{ name = "a", value = "b", type = "int" }] } }
  }
  # Says: type of additional_sets in karpenter_configs must be string, auto or literal
  expect_failures = [var.karpenter_configs]
}

run "no_role_for_the_controller" {
  command = plan
  variables {
    iam_roles = { builder = { name = "Builder", service = "codebuild.amazonaws.com" } }
  }
  # Says: iam_roles must contain a role for Karpenter's controller
  expect_failures = [var.iam_roles]
}

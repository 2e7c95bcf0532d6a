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
    defaults = { arn = "arn:aws:iam::123456789012:role/karpenter/Mocked" }
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

# The nodes' role and the controller's are of one type: this distinguishes them.
override_resource {
  target = aws_iam_role.node
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterNode-demo" }
}

variables {
  cluster_name      = "demo"
  oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  oidc_issuer_url   = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
}

run "a_cluster_name_with_a_dot" {
  command = plan
  variables {
    cluster_name = "demo.eu"
  }
  # Says: cluster_name must begin with a letter or digit
  expect_failures = [var.cluster_name]
}

run "a_zone_for_a_region" {
  command = plan
  variables {
    region = "eu-central-1a"
  }
  # Says: region must be the name of a region
  expect_failures = [var.region]
}

run "a_release_with_a_v" {
  command = plan
  variables {
    karpenter_version = "v1.14.1"
  }
  # Says: karpenter_version must be a release of Karpenter without a v
  expect_failures = [var.karpenter_version]
}

run "an_issuer_for_a_provider" {
  command = plan
  variables {
    oidc_provider_arn = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  }
  # Says: oidc_provider_arn must be the ARN of an IAM OIDC provider
  expect_failures = [var.oidc_provider_arn]
}

run "a_provider_for_an_issuer" {
  command = plan
  variables {
    oidc_issuer_url = "arn:aws:iam::123456789012:oidc-provider/x"
  }
  # Says: oidc_issuer_url must be the cluster's issuer
  expect_failures = [var.oidc_issuer_url]
}

run "irsa_without_a_provider" {
  command = plan
  variables {
    oidc_provider_arn = null
  }
  # Says: set oidc_provider_arn and oidc_issuer_url, or use pods.eks.amazonaws.com
  expect_failures = [aws_iam_role.this]
}

run "no_service_account" {
  command = plan
  variables {
    service_accounts = []
  }
  # Says: service_accounts must contain at least one service account
  expect_failures = [var.service_accounts]
}

run "every_service_account" {
  command = plan
  variables {
    service_accounts = [{ namespace = "karpenter", name = "*" }]
  }
  # Says: and no wildcards
  expect_failures = [var.service_accounts]
}

run "no_role_for_the_controller" {
  command = plan
  variables {
    iam_roles = { builder = { service = "codebuild.amazonaws.com" } }
  }
  # Says: iam_roles must contain a role for Karpenter's controller
  expect_failures = [var.iam_roles]
}

run "a_service_that_is_none" {
  command = plan
  variables {
    iam_roles = { a = {}, b = { name = "b", service = "*" } }
  }
  # Says: service of iam_roles must be the name of an AWS service
  expect_failures = [var.iam_roles]
}

run "a_role_name_with_a_slash" {
  command = plan
  variables {
    iam_roles = { a = { name = "path/name" } }
  }
  # Says: name of iam_roles must be a name for a role
  expect_failures = [var.iam_roles]
}

run "two_roles_of_one_name" {
  command = plan
  variables {
    iam_roles = { a = {}, b = {} }
  }
  # Says: iam_roles must have different names
  expect_failures = [var.iam_roles]
}

run "an_attachment_to_no_role" {
  command = plan
  variables {
    iam_roles_attachments = { a = { role_key = "controller", policy_arn = "arn:aws:iam::aws:policy/ReadOnlyAccess" } }
  }
  # Says: role_key of iam_roles_attachments must be a key of iam_roles
  expect_failures = [aws_iam_role_policy_attachment.this]
}

run "an_attachment_of_a_name" {
  command = plan
  variables {
    iam_roles_attachments = { a = { role_key = "karpenter_controller", policy_arn = "ReadOnlyAccess" } }
  }
  # Says: policy_arn of iam_roles_attachments must be the ARN of an IAM policy
  expect_failures = [var.iam_roles_attachments]
}

run "a_name_for_a_role" {
  command = plan
  variables {
    node_role_arn = "nodes"
  }
  # Says: node_role_arn must be the ARN of an IAM role
  expect_failures = [var.node_role_arn]
}

run "no_role_for_nodes" {
  command = plan
  variables {
    create_node_role    = false
    create_access_entry = false
  }
  # Says: Without create_node_role, set node_role_arn
  expect_failures = [aws_iam_policy.controller]
}

run "a_queue_name_with_a_dot" {
  command = plan
  variables {
    queue_name = "demo.fifo"
  }
  # Says: queue_name must have at most 80 letters
  expect_failures = [var.queue_name]
}

run "an_existing_instance_profile_without_a_name" {
  command = plan
  variables {
    create_instance_profile = false
  }
  # Says: set node_instance_profile_name to the existing instance profile of the nodes
  expect_failures = [data.aws_iam_instance_profile.node]
}

run "an_existing_instance_profile_and_a_role" {
  command = plan
  variables {
    create_instance_profile    = false
    node_instance_profile_name = "nodes"
    node_role_arn              = "arn:aws:iam::123456789012:role/nodes"
  }
  # Says: node_role_arn is read from the existing instance profile
  expect_failures = [data.aws_iam_instance_profile.node]
}

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/capt" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/capt" }
  }
}

variables {
  oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
}

run "a_name_with_a_slash" {
  command = plan
  variables {
    name = "path/capt"
  }
  # Says: name must have at most 50 letters
  expect_failures = [var.name]
}

run "an_issuer_for_a_provider" {
  command = plan
  variables {
    oidc_provider_arn = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  }
  # Says: oidc_provider_arn must be the ARN of an IAM OIDC provider
  expect_failures = [var.oidc_provider_arn]
}

run "a_name_for_a_cluster" {
  command = plan
  variables {
    pod_identity_cluster_arn = "management"
  }
  # Says: pod_identity_cluster_arn must be the ARN of an EKS cluster
  expect_failures = [var.pod_identity_cluster_arn]
}

run "every_principal" {
  command = plan
  variables {
    trusted_principal_arns = ["*"]
  }
  # Says: trusted_principal_arns must contain ARNs of IAM roles and users
  expect_failures = [var.trusted_principal_arns]
}

run "every_role_of_an_account" {
  command = plan
  variables {
    assume_role_arns = ["arn:aws:iam::210987654321:role/*"]
  }
  # Says: assume_role_arns must contain ARNs of IAM roles
  expect_failures = [var.assume_role_arns]
}

run "every_service_account" {
  command = plan
  variables {
    service_accounts = [{ namespace = "capt-system", name = "*" }]
  }
  # Says: service_accounts must contain at least one service account
  expect_failures = [var.service_accounts]
}

run "a_zone_for_a_region" {
  command = plan
  variables {
    regions = ["eu-central-1a"]
  }
  # Says: regions must contain names of regions
  expect_failures = [var.regions]
}

run "a_name_for_a_boundary" {
  command = plan
  variables {
    permissions_boundary_arn = "boundary"
  }
  # Says: permissions_boundary_arn must be the ARN of an IAM policy
  expect_failures = [var.permissions_boundary_arn]
}

run "all_names_for_a_prefix" {
  command = plan
  variables {
    cluster_name_prefix = "*"
  }
  # Says: cluster_name_prefix must have at most 30 letters
  expect_failures = [var.cluster_name_prefix]
}

run "all_objects_for_a_prefix" {
  command = plan
  variables {
    state_bucket = "example-terraform-state/*"
  }
  # Says: state_bucket must be the name of a bucket
  expect_failures = [var.state_bucket]
}

run "a_role_without_trust" {
  command = plan
  variables {
    oidc_provider_arn = null
  }
  # Says: No identity could assume the role
  expect_failures = [aws_iam_role.this]
}

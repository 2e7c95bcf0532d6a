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
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-flux-system-fargate" }
  }
  mock_resource "aws_eks_fargate_profile" {
    defaults = { arn = "arn:aws:eks:eu-central-1:123456789012:fargateprofile/demo/flux-system/0" }
  }
}

variables {
  name         = "flux-system"
  cluster_name = "demo"
  subnet_ids   = ["subnet-a", "subnet-b"]
  selectors    = [{ namespace = "flux-system" }]
}

run "a_name_of_ekss_own" {
  command = plan
  variables {
    name = "eks-flux"
  }
  # Says: name must begin with a letter or digit, not with eks-
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
  # Says: subnet_ids must name at least one private subnet
  expect_failures = [var.subnet_ids]
}

run "no_selector" {
  command = plan
  variables {
    selectors = []
  }
  # Says: selectors must contain between one and five selectors
  expect_failures = [var.selectors]
}

run "too_many_labels" {
  command = plan
  variables {
    selectors = [{ namespace = "a", labels = { a = "1", b = "2", c = "3", d = "4", e = "5", f = "6" } }]
  }
  # Says: may have at most five labels
  expect_failures = [var.selectors]
}

run "a_name_for_a_role" {
  command = plan
  variables {
    pod_execution_role_arn = "fargate"
  }
  # Says: pod_execution_role_arn must be the ARN of an IAM role
  expect_failures = [var.pod_execution_role_arn]
}

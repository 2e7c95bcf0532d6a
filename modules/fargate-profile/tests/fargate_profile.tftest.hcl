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

run "defaults" {
  command = plan

  assert {
    condition     = aws_eks_fargate_profile.this.fargate_profile_name == "flux-system" && aws_eks_fargate_profile.this.subnet_ids == toset(["subnet-a", "subnet-b"]) && one(aws_eks_fargate_profile.this.selector).namespace == "flux-system"
    error_message = "The profile selects the pods of the namespace."
  }
  assert {
    condition     = jsondecode(aws_iam_role.this[0].assume_role_policy).Statement == [{ Sid = "FargatePods", Effect = "Allow", Principal = { Service = "eks-fargate-pods.amazonaws.com" }, Action = "sts:AssumeRole", Condition = { ArnLike = { "aws:SourceArn" = "arn:aws:eks:eu-central-1:123456789012:fargateprofile/demo/*" } } }]
    error_message = "Only Fargate profiles of this cluster may assume the role."
  }
  assert {
    condition     = aws_iam_role_policy_attachment.this[0].policy_arn == "arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy" && aws_iam_role.this[0].name == "demo-flux-system-eu-central-1-fargate"
    error_message = "The role has the managed policy for Fargate."
  }
}

run "labels_and_a_given_role" {
  command = plan

  variables {
    region                 = "eu-west-1"
    pod_execution_role_arn = "arn:aws:iam::123456789012:role/fargate"
    selectors = [
      { namespace = "kube-system", labels = { k8s-app = "kube-dns" } },
      { namespace = "karpenter" },
    ]
    tags = { Team = "platform" }
  }

  assert {
    condition     = { for s in aws_eks_fargate_profile.this.selector : s.namespace => jsonencode(s.labels) } == { kube-system = "{\"k8s-app\":\"kube-dns\"}", karpenter = "{}" }
    error_message = "Selectors have their labels."
  }
  assert {
    condition     = length(aws_iam_role.this) == 0 && aws_eks_fargate_profile.this.pod_execution_role_arn == "arn:aws:iam::123456789012:role/fargate" && aws_eks_fargate_profile.this.region == "eu-west-1" && aws_eks_fargate_profile.this.tags["Team"] == "platform"
    error_message = "A given role is used, and not changed."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    name                     = "a-profile-whose-name-is-longer-than-a-role-may-have-in-its-own"
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    timeouts                 = { create = "20m", delete = "15m" }
  }

  assert {
    condition     = aws_iam_role.this[0].permissions_boundary == "arn:aws:iam::123456789012:policy/boundary" && length(aws_iam_role.this[0].name) == 64 && aws_eks_fargate_profile.this.timeouts.delete == "15m"
    error_message = "Boundary and timeouts are set, and a long name is truncated."
  }
}

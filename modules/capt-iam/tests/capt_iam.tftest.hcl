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

run "defaults" {
  command = plan

  assert {
    condition     = { for name, p in aws_iam_policy.this : name => p.name } == { network = "capt-network", clusters = "capt-clusters", roles = "capt-roles" }
    error_message = "The permissions are in three policies."
  }
  assert {
    condition     = alltrue([for p in aws_iam_policy.this : length(p.policy) <= 6144])
    error_message = "A policy has at most 6,144 characters."
  }
  assert {
    condition     = toset(flatten([for p in aws_iam_policy.this : [for s in jsondecode(p.policy).Statement : flatten([s.Action])]])) == toset(flatten([for service, actions in local.actions : [for a in actions : "${service}:${a}"] if service != "s3"]))
    error_message = "The policies allow the recorded actions and nothing else."
  }
  assert {
    condition     = alltrue(flatten([for p in aws_iam_policy.this : [for s in jsondecode(p.policy).Statement : [for a in flatten([s.Action]) : !strcontains(a, "*")]]]))
    error_message = "No action is a wildcard."
  }
  assert {
    condition = { for s in jsondecode(aws_iam_policy.this["clusters"].policy).Statement : s.Sid => try(s.Condition, null) if contains(flatten([s.Action]), "kms:Decrypt") } == {
      KmsOfDisks = { StringLike = { "kms:ViaService" = "ec2.*.amazonaws.com" } }
    }
    error_message = "CAPT decrypts nothing itself: EC2 does for the disks of machines."
  }
  assert {
    condition = jsondecode(aws_iam_role.this[0].assume_role_policy).Statement == [{
      Sid       = "ServiceAccounts"
      Effect    = "Allow"
      Principal = { Federated = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = {
        StringEquals = {
          "oidc.eks.eu-central-1.amazonaws.com/id/ABCD:aud" = ["sts.amazonaws.com"]
          "oidc.eks.eu-central-1.amazonaws.com/id/ABCD:sub" = ["system:serviceaccount:capt-system:capt-controller-manager", "system:serviceaccount:capt-control-plane-system:capt-control-plane-controller-manager"]
        }
      }
    }]
    error_message = "Only the service accounts of the managers that call AWS assume the role, also if clusterctl has installed them."
  }
  assert {
    condition     = length(aws_iam_role_policy_attachment.this) == 3 && output.role_arn == "arn:aws:iam::123456789012:role/capt" && keys(output.policy_documents) == ["clusters", "network", "roles"]
    error_message = "The role has all policies."
  }
}

run "roles_of_other_accounts" {
  command = plan

  variables {
    assume_role_arns = ["arn:aws:iam::210987654321:role/capt"]
  }

  assert {
    condition = jsondecode(aws_iam_policy.this["accounts"].policy).Statement == [
      { Sid = "AssumeRoles", Effect = "Allow", Action = ["sts:AssumeRole", "sts:TagSession"], Resource = ["arn:aws:iam::210987654321:role/capt"] },
    ]
    error_message = "The role assumes the named roles and no others."
  }
  assert {
    condition     = length(aws_iam_role_policy_attachment.this) == 4
    error_message = "The role has the policy."
  }
}

run "states_in_s3" {
  command = plan

  variables {
    state_bucket = "example-terraform-state/capt/"
  }

  assert {
    condition = jsondecode(aws_iam_policy.this["state"].policy).Statement == [
      { Sid = "List", Effect = "Allow", Action = "s3:ListBucket", Resource = "arn:aws:s3:::example-terraform-state" },
      { Sid = "States", Effect = "Allow", Action = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], Resource = "arn:aws:s3:::example-terraform-state/capt/*" },
    ]
    error_message = "The role reads and writes the states and nothing else."
  }
}

run "limits" {
  command = plan

  variables {
    regions                  = ["eu-central-1"]
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
  }

  assert {
    condition     = alltrue(flatten([for name, p in aws_iam_policy.this : [for s in jsondecode(p.policy).Statement : s.Condition.StringEquals["aws:RequestedRegion"] == ["eu-central-1"] if s.Sid != "NamesOfEndpoints"] if name != "roles"]))
    error_message = "CAPT acts only in the given regions. Route 53 is global."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_policy.this["roles"].policy).Statement : s.Sid => try(s.Condition.StringEquals["iam:PermissionsBoundary"], "") }["Grant"] == "arn:aws:iam::123456789012:policy/boundary"
    error_message = "CAPT gives permissions only to roles with the boundary."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_policy.this["roles"].policy).Statement : s.Sid => s.Resource if s.Effect == "Deny" } == { ProtectOwnPolicies = ["arn:aws:iam::123456789012:policy/capt-*", "arn:aws:iam::123456789012:policy/boundary"], ProtectOwnRole = "arn:aws:iam::123456789012:role/capt" }
    error_message = "CAPT changes neither its own permissions nor the boundary."
  }
  assert {
    condition     = !strcontains(aws_iam_policy.this["roles"].policy, "DeleteRolePermissionsBoundary")
    error_message = "CAPT removes no boundary."
  }
  assert {
    condition     = alltrue([for p in aws_iam_policy.this : length(p.policy) <= 6144])
    error_message = "A policy has at most 6,144 characters."
  }
}

run "roles_of_clusters_only" {
  command = plan

  variables {
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    cluster_name_prefix      = "prod-"
  }

  assert {
    condition = toset(flatten([for s in jsondecode(aws_iam_policy.this["roles"].policy).Statement : [
      for a in flatten([s.Action]) : s.Resource if contains(["iam:UpdateAssumeRolePolicy", "iam:AttachRolePolicy", "iam:PutRolePolicy", "iam:PassRole", "iam:DeleteRole", "iam:TagRole", "iam:CreatePolicyVersion"], a)
      ] if s.Effect == "Allow"])) == toset([
      "arn:aws:iam::123456789012:instance-profile/prod-*", "arn:aws:iam::123456789012:instance-profile/KarpenterController-prod-*", "arn:aws:iam::123456789012:instance-profile/KarpenterNode-prod-*",
      "arn:aws:iam::123456789012:instance-profile/karpenter/*/prod-*",
      "arn:aws:iam::123456789012:oidc-provider/*", "arn:aws:iam::123456789012:policy/KarpenterController*-prod-*",
      "arn:aws:iam::123456789012:role/prod-*", "arn:aws:iam::123456789012:role/KarpenterController-prod-*", "arn:aws:iam::123456789012:role/KarpenterNode-prod-*",
    ])
    error_message = "CAPT changes and passes no other role of the account."
  }
  assert {
    condition     = !strcontains(aws_iam_policy.this["roles"].policy, ":role/*") && !strcontains(aws_iam_policy.this["roles"].policy, ":policy/*")
    error_message = "No statement is for all roles or policies."
  }
  assert {
    condition     = alltrue([for p in aws_iam_policy.this : length(p.policy) <= 6144])
    error_message = "A policy has at most 6,144 characters."
  }
}

run "other_ways_to_assume_the_role" {
  command = plan

  variables {
    oidc_provider_arn        = null
    pod_identity_cluster_arn = "arn:aws:eks:eu-central-1:123456789012:cluster/management"
    trusted_principal_arns   = ["arn:aws:iam::210987654321:role/capt"]
    service_accounts         = [{ namespace = "capt-system", name = "capt-controller-manager" }, { namespace = "team-a", name = "runner" }]
  }

  assert {
    condition     = [for s in jsondecode(aws_iam_role.this[0].assume_role_policy).Statement : keys(s.Principal)[0]] == ["Service", "Service", "AWS"]
    error_message = "Pods of the management cluster and the named principals assume the role."
  }
}

run "without_a_role" {
  command = plan

  variables {
    oidc_provider_arn = null
    create_role       = false
  }

  assert {
    condition     = length(aws_iam_role.this) == 0 && length(aws_iam_role_policy_attachment.this) == 0 && output.role_arn == null && length(output.policy_arns) == 3
    error_message = "The policies can be attached elsewhere."
  }
}

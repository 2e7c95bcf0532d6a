data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  iam       = "arn:${local.partition}:iam::${local.account}"

  # The tests of CAPT's modules on an emulator check that they call nothing else.
  actions = jsondecode(file("${path.module}/actions.json"))

  in_regions = { for key in ["Condition"] : key => { StringEquals = { "aws:RequestedRegion" = var.regions } } if length(var.regions) > 0 }
  bounded    = { for key in ["Condition"] : key => { StringEquals = { "iam:PermissionsBoundary" = var.permissions_boundary_arn } } if var.permissions_boundary_arn != null }

  # The names that the modules give to roles, instance profiles and policies of clusters.
  prefix = var.cluster_name_prefix
  roles  = [for name in(local.prefix == "" ? ["*"] : ["${local.prefix}*", "KarpenterController-${local.prefix}*", "KarpenterNode-${local.prefix}*"]) : "${local.iam}:role/${name}"]
  # Karpenter creates profiles with a path. A role is deleted after its profiles.
  karpenter_profiles = local.prefix == "" ? [] : ["${local.iam}:instance-profile/karpenter/*/${local.prefix}*"]
  instance_profiles  = concat([for arn in local.roles : replace(arn, ":role/", ":instance-profile/")], local.karpenter_profiles)
  managed_policies   = ["${local.iam}:policy/${local.prefix == "" ? "*" : "KarpenterController*-${local.prefix}*"}"]

  iam_reads = [for action in local.actions.iam : action if can(regex("^(Get|List)", action))]
  # Actions that change the permissions of a role.
  iam_grants = ["AttachRolePolicy", "CreateRole", "DeleteRolePolicy", "DetachRolePolicy", "PutRolePermissionsBoundary", "PutRolePolicy"]
  # Each has a statement of its own, or none.
  iam_special = ["CreateServiceLinkedRole", "DeleteRolePermissionsBoundary", "PassRole"]
  iam_writes  = setsubtract(local.actions.iam, concat(local.iam_reads, local.iam_grants, local.iam_special))

  services = [for service in keys(local.actions) : service if !contains(["ec2", "iam", "route53", "s3"], service)]
  # Actions on data: EC2 calls them for the encrypted disks of machines, with the identity of its caller.
  kms_via_ec2 = ["Decrypt", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"]

  # A bucket, or a prefix of the keys in it.
  state_arn = var.state_bucket == null ? null : "arn:${local.partition}:s3:::${trimsuffix(var.state_bucket, "/")}"

  state_policies = { for name in ["state"] : name => {
    description = "States of workspaces"
    statements = [
      {
        Sid      = "List"
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = "arn:${local.partition}:s3:::${split("/", var.state_bucket)[0]}"
      },
      {
        Sid      = "States"
        Effect   = "Allow"
        Action   = [for action in local.actions.s3 : "s3:${action}" if action != "ListBucket"]
        Resource = "${local.state_arn}/*"
      },
    ]
  } if var.state_bucket != null }

  # The trust policy of a role in another account does not suffice: the caller needs the permission, too.
  account_policies = { for name in ["accounts"] : name => {
    description = "Roles in other accounts"
    statements = [{
      Sid      = "AssumeRoles"
      Effect   = "Allow"
      Action   = ["sts:AssumeRole", "sts:TagSession"]
      Resource = var.assume_role_arns
    }]
  } if length(var.assume_role_arns) > 0 }

  policies = merge(local.state_policies, local.account_policies, {
    network = {
      description = "VPCs, security groups, launch templates and instances"
      statements = [merge({
        Sid      = "EC2"
        Effect   = "Allow"
        Action   = [for action in local.actions.ec2 : "ec2:${action}"]
        Resource = "*"
        }, local.in_regions), {
        # EC2 calls it for interface endpoints, with the identity of its caller. Route 53 is global.
        Sid      = "NamesOfEndpoints"
        Effect   = "Allow"
        Action   = [for action in local.actions.route53 : "route53:${action}"]
        Resource = "*"
      }]
    }
    clusters = {
      description = "EKS clusters, their keys, logs, queues and what is left of them"
      statements = concat([for service in local.services : merge({
        Sid      = replace(title(service), "/[^A-Za-z0-9]/", "")
        Effect   = "Allow"
        Action   = [for action in local.actions[service] : "${service}:${action}" if service != "kms" || !contains(local.kms_via_ec2, action)]
        Resource = "*"
        }, local.in_regions)], [{
        Sid       = "KmsOfDisks"
        Effect    = "Allow"
        Action    = [for action in local.kms_via_ec2 : "kms:${action}"]
        Resource  = "*"
        Condition = merge({ StringLike = { "kms:ViaService" = "ec2.*.${data.aws_partition.current.dns_suffix}" } }, try(local.in_regions.Condition, {}))
      }])
    }
    roles = {
      description = "Roles of control planes, nodes and controllers"
      statements = concat([
        {
          Sid      = "Read"
          Effect   = "Allow"
          Action   = [for action in local.iam_reads : "iam:${action}"]
          Resource = "*"
        },
        {
          Sid      = "Write"
          Effect   = "Allow"
          Action   = sort([for action in local.iam_writes : "iam:${action}"])
          Resource = concat(local.instance_profiles, ["${local.iam}:oidc-provider/*"], local.managed_policies, local.roles)
        },
        merge({
          Sid      = "Grant"
          Effect   = "Allow"
          Action   = [for action in local.iam_grants : "iam:${action}"]
          Resource = local.roles
        }, local.bounded),
        {
          Sid      = "Pass"
          Effect   = "Allow"
          Action   = "iam:PassRole"
          Resource = local.roles
          Condition = {
            StringEquals = { "iam:PassedToService" = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn", "eks-fargate-pods.amazonaws.com", "eks.amazonaws.com", "pods.eks.amazonaws.com"] }
          }
        },
        {
          Sid      = "ServiceLinkedRoles"
          Effect   = "Allow"
          Action   = "iam:CreateServiceLinkedRole"
          Resource = "${local.iam}:role/aws-service-role/*"
          Condition = {
            StringEquals = { "iam:AWSServiceName" = ["autoscaling.amazonaws.com", "eks-fargate.amazonaws.com", "eks-nodegroup.amazonaws.com", "eks.amazonaws.com", "spot.amazonaws.com"] }
          }
        },
        {
          Sid      = "ProtectOwnPolicies"
          Effect   = "Deny"
          Action   = ["iam:CreatePolicyVersion", "iam:DeletePolicy", "iam:DeletePolicyVersion"]
          Resource = concat(["${local.iam}:policy/${var.name}-*"], [for arn in [var.permissions_boundary_arn] : arn if arn != null])
        },
        {
          Sid      = "ProtectOwnRole"
          Effect   = "Deny"
          Action   = concat([for action in local.iam_grants : "iam:${action}"], ["iam:DeleteRole", "iam:UpdateAssumeRolePolicy"])
          Resource = "${local.iam}:role/${var.name}"
        },
        ], [for s in [{
          # A role without its boundary could have any permissions.
          Sid      = "RemoveBoundaries"
          Effect   = "Allow"
          Action   = "iam:DeleteRolePermissionsBoundary"
          Resource = local.roles
      }] : s if var.permissions_boundary_arn == null])
    }
  })
}

resource "aws_iam_policy" "this" {
  for_each = local.policies

  name        = "${var.name}-${each.key}"
  description = "CAPT: ${each.value.description}"
  policy      = jsonencode({ Version = "2012-10-17", Statement = each.value.statements })

  tags = var.tags
}

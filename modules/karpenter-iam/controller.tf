locals {
  issuer = var.oidc_issuer_url == null ? "" : replace(var.oidc_issuer_url, "https://", "")

  roles = { for key, role in var.iam_roles : key => merge(role, { name = coalesce(role.name, "KarpenterController-${local.iam_name}") }) }

  irsa_roles         = [for key, role in local.roles : key if role.service == "eks.amazonaws.com"]
  pod_identity_roles = [for key, role in local.roles : key if role.service == "pods.eks.amazonaws.com"]
  controller_roles   = concat(local.irsa_roles, local.pod_identity_roles)

  # The role of the outputs: the one with the documented key, or the first.
  main_role = contains(local.controller_roles, "karpenter_controller") ? "karpenter_controller" : sort(local.controller_roles)[0]

  # One statement for each service account: lists of namespaces and of names would
  # also allow the other pairs of them.
  trusts = {
    for key, role in local.roles : key => {
      Version = "2012-10-17"
      Statement = concat(
        role.service != "eks.amazonaws.com" ? [] : [{
          Sid       = "KarpenterServiceAccounts"
          Effect    = "Allow"
          Principal = { Federated = var.oidc_provider_arn }
          Action    = ["sts:AssumeRoleWithWebIdentity"]
          Condition = {
            StringEquals = {
              "${local.issuer}:aud" = ["sts.amazonaws.com"]
              "${local.issuer}:sub" = [for a in var.service_accounts : "system:serviceaccount:${a.namespace}:${a.name}"]
            }
          }
        }],
        role.service != "pods.eks.amazonaws.com" ? [] : [
          for a in var.service_accounts : {
            Sid       = "KarpenterPods${substr(sha256("${a.namespace}/${a.name}"), 0, 8)}"
            Effect    = "Allow"
            Principal = { Service = role.service }
            Action    = ["sts:AssumeRole", "sts:TagSession"]
            Condition = {
              StringEquals = {
                "aws:RequestTag/eks-cluster-arn"            = [local.cluster_arn]
                "aws:RequestTag/kubernetes-namespace"       = [a.namespace]
                "aws:RequestTag/kubernetes-service-account" = [a.name]
              }
            }
          }
        ],
        contains(["eks.amazonaws.com", "pods.eks.amazonaws.com"], role.service) ? [] : [{
          Sid       = "Service"
          Effect    = "Allow"
          Principal = { Service = role.service }
          Action    = ["sts:AssumeRole"]
        }],
      )
    }
  }
}

resource "aws_iam_role" "this" {
  for_each = local.roles

  name                 = each.value.name
  description          = contains(local.controller_roles, each.key) ? "Karpenter's controller in the EKS cluster ${var.cluster_name}" : "Created with Karpenter for the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.trusts[each.key])
  permissions_boundary = var.permissions_boundary_arn

  tags = merge(var.tags, each.value.tags)

  lifecycle {
    # An imported role keeps its name: a new one would replace it.
    ignore_changes = [name]

    precondition {
      condition     = each.value.service != "eks.amazonaws.com" || (var.oidc_provider_arn != null && var.oidc_issuer_url != null)
      error_message = "A role with the service eks.amazonaws.com is assumed through web identity: set oidc_provider_arn and oidc_issuer_url, or use pods.eks.amazonaws.com (Pod Identity)."
    }
  }
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = var.iam_roles_attachments

  role       = aws_iam_role.this[each.value.role_key].name
  policy_arn = each.value.policy_arn

  lifecycle {
    precondition {
      condition     = contains(keys(var.iam_roles), each.value.role_key)
      error_message = "role_key of iam_roles_attachments must be a key of iam_roles."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.controller_policies

  name        = "KarpenterController${each.key}-${local.iam_name}"
  description = "Karpenter's controller in the EKS cluster ${var.cluster_name}: ${each.value.description}"
  policy      = jsonencode({ Version = "2012-10-17", Statement = each.value.statements })

  tags = var.tags

  lifecycle {
    # An imported policy keeps its name: a new one would replace it.
    ignore_changes = [name]

    precondition {
      condition     = var.create_node_role || !var.create_instance_profile || var.node_role_arn != null
      error_message = "Without create_node_role, set node_role_arn to the nodes' role: Karpenter must be allowed to pass it to instances."
    }
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = { for pair in setproduct(local.controller_roles, keys(local.controller_policies)) : "${pair[0]}/${pair[1]}" => { role = pair[0], policy = pair[1] } }

  role       = aws_iam_role.this[each.value.role].name
  policy_arn = aws_iam_policy.controller[each.value.policy].arn
}

resource "aws_eks_pod_identity_association" "this" {
  for_each = { for pair in setproduct(local.pod_identity_roles, var.service_accounts) : "${pair[0]}/${pair[1].namespace}/${pair[1].name}" => { role = pair[0], account = pair[1] } }

  region = var.region

  cluster_name    = var.cluster_name
  namespace       = each.value.account.namespace
  service_account = each.value.account.name
  role_arn        = aws_iam_role.this[each.value.role].arn

  tags = var.tags
}

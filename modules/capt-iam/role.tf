locals {
  issuer = var.oidc_provider_arn == null ? "" : split(":oidc-provider/", var.oidc_provider_arn)[1]

  trusts = concat(
    [for s in [{
      Sid       = "ServiceAccounts"
      Effect    = "Allow"
      Principal = { Federated = var.oidc_provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = {
        StringEquals = {
          "${local.issuer}:aud" = ["sts.amazonaws.com"]
          "${local.issuer}:sub" = [for a in var.service_accounts : "system:serviceaccount:${a.namespace}:${a.name}"]
        }
      }
    }] : s if var.oidc_provider_arn != null],
    # One statement for each: lists of namespaces and names would allow other pairs too.
    [for a in var.service_accounts : {
      Sid       = "Pods${substr(sha256("${a.namespace}/${a.name}"), 0, 8)}"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/eks-cluster-arn"            = [var.pod_identity_cluster_arn]
          "aws:RequestTag/kubernetes-namespace"       = [a.namespace]
          "aws:RequestTag/kubernetes-service-account" = [a.name]
        }
      }
    } if var.pod_identity_cluster_arn != null],
    [for s in [{
      Sid       = "Principals"
      Effect    = "Allow"
      Principal = { AWS = var.trusted_principal_arns }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }] : s if length(var.trusted_principal_arns) > 0],
  )
}

resource "aws_iam_role" "this" {
  count = var.create_role ? 1 : 0

  name                 = var.name
  description          = "Creates EKS clusters with CAPT"
  assume_role_policy   = jsonencode({ Version = "2012-10-17", Statement = local.trusts })
  permissions_boundary = var.role_permissions_boundary_arn
  # A run may take longer than an hour, the default.
  max_session_duration = 14400

  tags = var.tags

  lifecycle {
    precondition {
      condition     = length(local.trusts) > 0
      error_message = "No identity could assume the role: set oidc_provider_arn, pod_identity_cluster_arn or trusted_principal_arns, or create_role to false."
    }
  }
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = { for name, policy in aws_iam_policy.this : name => policy if var.create_role }

  role       = aws_iam_role.this[0].name
  policy_arn = each.value.arn
}

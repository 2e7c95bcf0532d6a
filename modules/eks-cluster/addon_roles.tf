# Roles of controllers in the cluster, each assumed by one service account.

data "aws_caller_identity" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = coalesce(var.region, data.aws_region.current.region)

  # Known before the cluster exists.
  cluster_arn = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"
  issuer      = replace(aws_eks_cluster.this.identity[0].oidc[0].issuer, "https://", "")

  addon_accounts = {
    ebs_csi_driver               = { namespace = "kube-system", name = "ebs-csi-controller-sa" }
    aws_load_balancer_controller = { namespace = "kube-system", name = "aws-load-balancer-controller" }
    external_dns                 = { namespace = "external-dns", name = "external-dns" }
    cert_manager                 = { namespace = "cert-manager", name = "cert-manager" }
    vpc_cni                      = { namespace = "kube-system", name = "aws-node" }
  }
  addon_suffixes = { ebs_csi_driver = "ebs-csi", aws_load_balancer_controller = "elb", external_dns = "dns", cert_manager = "cert", vpc_cni = "cni" }
  addon_switches = {
    ebs_csi_driver               = var.ebs_csi_driver
    aws_load_balancer_controller = var.aws_load_balancer_controller_role
    external_dns                 = var.external_dns_role
    cert_manager                 = var.cert_manager_role
    # The policy of AWS, which nodes have, does not include IPv6.
    vpc_cni = var.ip_family == "ipv6" && contains(keys(var.cluster_addons), "vpc-cni")
  }

  addon_roles = {
    for name, enabled in local.addon_switches : name => {
      # Names of roles end at 64 characters.
      name    = length("${local.role_base}-${local.addon_suffixes[name]}") <= 64 ? "${local.role_base}-${local.addon_suffixes[name]}" : "${substr(local.role_base, 0, 47)}-${substr(sha256(local.role_base), 0, 8)}-${local.addon_suffixes[name]}"
      account = lookup(var.addon_service_accounts, name, local.addon_accounts[name])
    } if enabled
  }

  addon_trusts = {
    for name, role in local.addon_roles : name => {
      Version = "2012-10-17"
      Statement = [
        for identity, statement in {
          IRSA = {
            Sid       = "ServiceAccount"
            Effect    = "Allow"
            Principal = { Federated = aws_iam_openid_connect_provider.this.arn }
            Action    = ["sts:AssumeRoleWithWebIdentity"]
            Condition = {
              StringEquals = {
                "${local.issuer}:aud" = ["sts.amazonaws.com"]
                "${local.issuer}:sub" = ["system:serviceaccount:${role.account.namespace}:${role.account.name}"]
              }
            }
          }
          PodIdentity = {
            Sid       = "ServiceAccount"
            Effect    = "Allow"
            Principal = { Service = "pods.eks.amazonaws.com" }
            Action    = ["sts:AssumeRole", "sts:TagSession"]
            Condition = {
              StringEquals = {
                "aws:RequestTag/eks-cluster-arn"            = [local.cluster_arn]
                "aws:RequestTag/kubernetes-namespace"       = [role.account.namespace]
                "aws:RequestTag/kubernetes-service-account" = [role.account.name]
              }
            }
          }
        } : statement if identity == var.addon_identity
      ]
    }
  }
}

resource "aws_iam_role" "addon" {
  for_each = local.addon_roles

  name                 = each.value.name
  description          = "${each.value.account.namespace}/${each.value.account.name} in the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.addon_trusts[each.key])
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags
}

resource "aws_iam_role_policy" "addon" {
  for_each = { for name, statements in local.addon_statements : name => statements if contains(keys(local.addon_roles), name) && length(statements) > 0 }

  name   = "controller"
  role   = aws_iam_role.addon[each.key].name
  policy = jsonencode({ Version = "2012-10-17", Statement = each.value })

  lifecycle {
    precondition {
      condition     = each.key != "external_dns" || length(var.external_dns_hosted_zones) > 0
      error_message = "external_dns_role needs external_dns_hosted_zones: name the hosted zones that external-dns may change, for example [\"Z0123456789ABCDEFGHIJ\"]."
    }
    precondition {
      condition     = each.key != "cert_manager" || length(var.cert_manager_hosted_zones) > 0
      error_message = "cert_manager_role needs cert_manager_hosted_zones: name the hosted zones in which cert-manager may solve challenges, for example [\"Z0123456789ABCDEFGHIJ\"]."
    }
  }
}

# Limited to volumes that the driver has tagged as its own.
resource "aws_iam_role_policy_attachment" "ebs_csi_driver" {
  count = var.ebs_csi_driver ? 1 : 0

  role       = aws_iam_role.addon["ebs_csi_driver"].name
  policy_arn = var.ebs_csi_policy_arn != null ? var.ebs_csi_policy_arn : "arn:${local.partition}:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"
}

locals {
  # EKS has one association for each service account, and refuses a second one only in the
  # apply. Those of an add-on are in the namespace of the add-on, here by its service account.
  associated_accounts = concat(
    [for name, role in local.addon_roles : "${role.account.namespace}/${role.account.name}" if var.addon_identity == "PodIdentity"],
    flatten([for name, addon in var.cluster_addons : [for a in addon.pod_identity_associations : "${lookup(local.addon_namespaces, name, "kube-system")}/${a.service_account}"]]),
  )
  # Most add-ons of EKS are in kube-system.
  addon_namespaces = {
    adot                            = "opentelemetry-operator-system"
    amazon-cloudwatch-observability = "amazon-cloudwatch"
    cert-manager                    = "cert-manager"
    external-dns                    = "external-dns"
  }
}

resource "aws_eks_pod_identity_association" "addon" {
  for_each = { for name, role in local.addon_roles : name => role if var.addon_identity == "PodIdentity" }

  region = var.region

  cluster_name    = aws_eks_cluster.this.name
  namespace       = each.value.account.namespace
  service_account = each.value.account.name
  role_arn        = aws_iam_role.addon[each.key].arn

  tags = var.tags

  lifecycle {
    precondition {
      condition     = local.auto_mode_enabled || contains(keys(local.cluster_addons), "eks-pod-identity-agent")
      error_message = "Roles with addon_identity = PodIdentity need the add-on eks-pod-identity-agent: add it to cluster_addons, or set addon_identity to IRSA."
    }
    precondition {
      condition     = length(distinct(local.associated_accounts)) == length(local.associated_accounts)
      error_message = "Two roles are for one service account, for which EKS allows one Pod Identity association: change addon_service_accounts, or remove the account from pod_identity_associations of cluster_addons."
    }
  }
}

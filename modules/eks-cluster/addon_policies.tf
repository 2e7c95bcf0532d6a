# Permissions of the controllers. SECURITY.md gives the reason for each statement.

locals {
  elb = "arn:${local.partition}:elasticloadbalancing:${local.region}:${local.account}"
  ec2 = "arn:${local.partition}:ec2:${local.region}:${local.account}"
  # A shared VPC belongs to another account.
  vpc_arn = "arn:${local.partition}:ec2:${local.region}:*:vpc/${var.vpc_id}"

  # The controller tags what it creates with the name of its cluster.
  elb_request  = { StringEquals = { "aws:RequestTag/elbv2.k8s.aws/cluster" = var.cluster_name } }
  elb_resource = { StringEquals = { "aws:ResourceTag/elbv2.k8s.aws/cluster" = var.cluster_name } }

  elb_listeners = [
    "${local.elb}:listener/app/*/*/*",
    "${local.elb}:listener/net/*/*/*",
    "${local.elb}:listener-rule/app/*/*/*",
    "${local.elb}:listener-rule/net/*/*/*",
  ]
  elb_tagged = ["${local.elb}:targetgroup/*/*", "${local.elb}:loadbalancer/net/*/*", "${local.elb}:loadbalancer/app/*/*"]

  load_balancer_statements = [
    {
      Sid      = "Discover"
      Effect   = "Allow"
      Resource = "*"
      Action = [
        "acm:DescribeCertificate",
        "acm:ListCertificates",
        "cognito-idp:DescribeUserPoolClient",
        "ec2:DescribeAccountAttributes",
        "ec2:DescribeAddresses",
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeCoipPools",
        "ec2:DescribeInstances",
        "ec2:DescribeInternetGateways",
        "ec2:DescribeIpamPools",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeRouteTables",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeTags",
        "ec2:DescribeVpcPeeringConnections",
        "ec2:DescribeVpcs",
        "ec2:GetCoipPoolUsage",
        "ec2:GetSecurityGroupsForVpc",
        "elasticloadbalancing:DescribeCapacityReservation",
        "elasticloadbalancing:DescribeListenerAttributes",
        "elasticloadbalancing:DescribeListenerCertificates",
        "elasticloadbalancing:DescribeListeners",
        "elasticloadbalancing:DescribeLoadBalancerAttributes",
        "elasticloadbalancing:DescribeLoadBalancers",
        "elasticloadbalancing:DescribeRules",
        "elasticloadbalancing:DescribeSSLPolicies",
        "elasticloadbalancing:DescribeTags",
        "elasticloadbalancing:DescribeTargetGroupAttributes",
        "elasticloadbalancing:DescribeTargetGroups",
        "elasticloadbalancing:DescribeTargetHealth",
        "elasticloadbalancing:DescribeTrustStores",
        "iam:GetServerCertificate",
        "iam:ListServerCertificates",
        "shield:DescribeProtection",
        "shield:GetSubscriptionState",
        "waf-regional:GetWebACL",
        "waf-regional:GetWebACLForResource",
        "wafv2:GetWebACL",
        "wafv2:GetWebACLForResource",
      ]
    },
    {
      Sid       = "ServiceLinkedRole"
      Effect    = "Allow"
      Action    = "iam:CreateServiceLinkedRole"
      Resource  = "*"
      Condition = { StringEquals = { "iam:AWSServiceName" = "elasticloadbalancing.amazonaws.com" } }
    },
    {
      Sid    = "Firewalls"
      Effect = "Allow"
      Action = [
        "shield:CreateProtection",
        "shield:DeleteProtection",
        "waf-regional:AssociateWebACL",
        "waf-regional:DisassociateWebACL",
        "wafv2:AssociateWebACL",
        "wafv2:DisassociateWebACL",
      ]
      Resource = "*"
    },
    {
      Sid       = "SecurityGroupRules"
      Effect    = "Allow"
      Action    = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
      Resource  = "*"
      Condition = { ArnLike = { "ec2:Vpc" = local.vpc_arn } }
    },
    {
      Sid      = "SecurityGroups"
      Effect   = "Allow"
      Action   = "ec2:CreateSecurityGroup"
      Resource = ["${local.ec2}:security-group/*", local.vpc_arn]
    },
    {
      Sid       = "TagNewSecurityGroups"
      Effect    = "Allow"
      Action    = "ec2:CreateTags"
      Resource  = "${local.ec2}:security-group/*"
      Condition = { StringEquals = merge(local.elb_request.StringEquals, { "ec2:CreateAction" = "CreateSecurityGroup" }) }
    },
    {
      Sid       = "TagSecurityGroups"
      Effect    = "Allow"
      Action    = ["ec2:CreateTags", "ec2:DeleteTags"]
      Resource  = "${local.ec2}:security-group/*"
      Condition = merge(local.elb_resource, { Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "true" } })
    },
    {
      Sid       = "DeleteSecurityGroups"
      Effect    = "Allow"
      Action    = "ec2:DeleteSecurityGroup"
      Resource  = "${local.ec2}:security-group/*"
      Condition = local.elb_resource
    },
    {
      Sid       = "Create"
      Effect    = "Allow"
      Action    = ["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"]
      Resource  = "*"
      Condition = local.elb_request
    },
    {
      Sid       = "TagNew"
      Effect    = "Allow"
      Action    = "elasticloadbalancing:AddTags"
      Resource  = local.elb_tagged
      Condition = { StringEquals = merge(local.elb_request.StringEquals, { "elasticloadbalancing:CreateAction" = ["CreateLoadBalancer", "CreateTargetGroup"] }) }
    },
    {
      Sid       = "Tag"
      Effect    = "Allow"
      Action    = ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"]
      Resource  = local.elb_tagged
      Condition = merge(local.elb_resource, { Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "true" } })
    },
    {
      Sid    = "Listeners"
      Effect = "Allow"
      Action = [
        "elasticloadbalancing:AddListenerCertificates",
        "elasticloadbalancing:CreateListener",
        "elasticloadbalancing:CreateRule",
        "elasticloadbalancing:DeleteListener",
        "elasticloadbalancing:DeleteRule",
        "elasticloadbalancing:ModifyListener",
        "elasticloadbalancing:ModifyRule",
        "elasticloadbalancing:RemoveListenerCertificates",
        "elasticloadbalancing:SetRulePriorities",
        "elasticloadbalancing:SetWebAcl",
      ]
      Resource = concat(local.elb_listeners, ["${local.elb}:loadbalancer/app/*/*", "${local.elb}:loadbalancer/net/*/*"])
    },
    {
      Sid      = "TagListeners"
      Effect   = "Allow"
      Action   = ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"]
      Resource = local.elb_listeners
    },
    {
      Sid    = "Change"
      Effect = "Allow"
      Action = [
        "elasticloadbalancing:DeleteLoadBalancer",
        "elasticloadbalancing:DeleteTargetGroup",
        "elasticloadbalancing:ModifyCapacityReservation",
        "elasticloadbalancing:ModifyIpPools",
        "elasticloadbalancing:ModifyListenerAttributes",
        "elasticloadbalancing:ModifyLoadBalancerAttributes",
        "elasticloadbalancing:ModifyTargetGroup",
        "elasticloadbalancing:ModifyTargetGroupAttributes",
        "elasticloadbalancing:SetIpAddressType",
        "elasticloadbalancing:SetSecurityGroups",
        "elasticloadbalancing:SetSubnets",
      ]
      Resource  = "*"
      Condition = local.elb_resource
    },
    {
      Sid      = "Targets"
      Effect   = "Allow"
      Action   = ["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"]
      Resource = "${local.elb}:targetgroup/*/*"
    },
  ]

  external_dns_statements = [
    {
      Sid      = "ChangeRecords"
      Effect   = "Allow"
      Action   = ["route53:ChangeResourceRecordSets", "route53:ListResourceRecordSets", "route53:ListTagsForResources"]
      Resource = sort([for zone in var.external_dns_hosted_zones : "arn:${local.partition}:route53:::hostedzone/${zone}"])
    },
    {
      Sid      = "FindZones"
      Effect   = "Allow"
      Action   = "route53:ListHostedZones"
      Resource = "*"
    },
  ]

  cert_manager_zones = sort([for zone in var.cert_manager_hosted_zones : "arn:${local.partition}:route53:::hostedzone/${zone}"])
  cert_manager_statements = [
    {
      Sid       = "SolveChallenges"
      Effect    = "Allow"
      Action    = "route53:ChangeResourceRecordSets"
      Resource  = local.cert_manager_zones
      Condition = { "ForAllValues:StringEquals" = { "route53:ChangeResourceRecordSetsRecordTypes" = ["TXT"] } }
    },
    {
      Sid      = "ReadRecords"
      Effect   = "Allow"
      Action   = "route53:ListResourceRecordSets"
      Resource = local.cert_manager_zones
    },
    {
      Sid      = "WaitForChanges"
      Effect   = "Allow"
      Action   = "route53:GetChange"
      Resource = "arn:${local.partition}:route53:::change/*"
    },
    {
      Sid      = "FindZones"
      Effect   = "Allow"
      Action   = "route53:ListHostedZonesByName"
      Resource = "*"
    },
  ]

  # Volumes that are encrypted with AWS's own key need none of these.
  ebs_csi_statements = [for statement in [
    {
      Sid       = "GrantKeys"
      Effect    = "Allow"
      Action    = ["kms:CreateGrant", "kms:ListGrants", "kms:RevokeGrant"]
      Resource  = var.ebs_csi_kms_key_arns
      Condition = { Bool = { "kms:GrantIsForAWSResource" = "true" } }
    },
    {
      Sid      = "UseKeys"
      Effect   = "Allow"
      Action   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
      Resource = var.ebs_csi_kms_key_arns
    },
  ] : statement if length(var.ebs_csi_kms_key_arns) > 0]

  vpc_cni_statements = [
    {
      Sid      = "AssignIPv6"
      Effect   = "Allow"
      Resource = "*"
      Action = [
        "ec2:AssignIpv6Addresses",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:DescribeTags",
      ]
    },
    {
      Sid      = "TagInterfaces"
      Effect   = "Allow"
      Resource = "${local.ec2}:network-interface/*"
      Action   = ["ec2:CreateTags"]
    },
  ]

  addon_statements = {
    ebs_csi_driver               = local.ebs_csi_statements
    aws_load_balancer_controller = local.load_balancer_statements
    external_dns                 = local.external_dns_statements
    cert_manager                 = local.cert_manager_statements
    vpc_cni                      = local.vpc_cni_statements
  }
}

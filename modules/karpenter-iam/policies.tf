# Permissions of Karpenter's controller. The statements, their names and their
# conditions are those of the CloudFormation template that Karpenter 1.14 is
# published with; SECURITY.md gives the reason for each.

locals {
  ec2 = "arn:${local.partition}:ec2:${local.region}"

  owned_request  = { "aws:RequestTag/kubernetes.io/cluster/${var.cluster_name}" = "owned" }
  owned_resource = { "aws:ResourceTag/kubernetes.io/cluster/${var.cluster_name}" = "owned" }
  region_request = { "aws:RequestTag/topology.kubernetes.io/region" = local.region }
  region_resource = {
    "aws:ResourceTag/topology.kubernetes.io/region" = local.region
  }
  named_request = startswith(var.karpenter_version, "0.") ? {} : { "aws:RequestTag/eks:eks-cluster-name" = var.cluster_name }

  nodepool_request   = { "aws:RequestTag/karpenter.sh/nodepool" = "*" }
  nodepool_resource  = { "aws:ResourceTag/karpenter.sh/nodepool" = "*" }
  nodeclass_request  = { "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass" = "*" }
  nodeclass_resource = { "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass" = "*" }

  created_resources = [
    "${local.ec2}:*:fleet/*",
    "${local.ec2}:*:instance/*",
    "${local.ec2}:*:launch-template/*",
    "${local.ec2}:*:network-interface/*",
    "${local.ec2}:*:spot-instances-request/*",
    "${local.ec2}:*:volume/*",
  ]
  instance_profiles = "arn:${local.partition}:iam::${local.account}:instance-profile/*"

  node_lifecycle_statements = [
    {
      Sid    = "AllowScopedEC2InstanceAccessActions"
      Effect = "Allow"
      Action = ["ec2:CreateFleet", "ec2:RunInstances"]
      Resource = [
        "${local.ec2}::image/*",
        "${local.ec2}::snapshot/*",
        "${local.ec2}:*:capacity-reservation/*",
        "${local.ec2}:*:placement-group/*",
        "${local.ec2}:*:security-group/*",
        "${local.ec2}:*:subnet/*",
      ]
    },
    {
      Sid      = "AllowScopedEC2LaunchTemplateAccessActions"
      Effect   = "Allow"
      Action   = ["ec2:CreateFleet", "ec2:RunInstances"]
      Resource = "${local.ec2}:*:launch-template/*"
      Condition = {
        StringEquals = local.owned_resource
        StringLike   = local.nodepool_resource
      }
    },
    {
      Sid      = "AllowScopedEC2InstanceActionsWithTags"
      Effect   = "Allow"
      Action   = ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"]
      Resource = local.created_resources
      Condition = {
        StringEquals = merge(local.owned_request, local.named_request)
        StringLike   = local.nodepool_request
      }
    },
    {
      Sid      = "AllowScopedResourceCreationTagging"
      Effect   = "Allow"
      Action   = "ec2:CreateTags"
      Resource = local.created_resources
      Condition = {
        StringEquals = merge(local.owned_request, local.named_request, {
          "ec2:CreateAction" = ["CreateFleet", "CreateLaunchTemplate", "RunInstances"]
        })
        StringLike = local.nodepool_request
      }
    },
    {
      Sid      = "AllowScopedResourceTagging"
      Effect   = "Allow"
      Action   = "ec2:CreateTags"
      Resource = "${local.ec2}:*:instance/*"
      Condition = {
        StringEquals         = local.owned_resource
        StringLike           = local.nodepool_resource
        StringEqualsIfExists = { "aws:RequestTag/eks:eks-cluster-name" = var.cluster_name }
        "ForAllValues:StringEquals" = {
          "aws:TagKeys" = ["Name", "eks:eks-cluster-name", "karpenter.sh/nodeclaim"]
        }
      }
    },
    {
      Sid      = "AllowScopedDeletion"
      Effect   = "Allow"
      Action   = ["ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"]
      Resource = ["${local.ec2}:*:instance/*", "${local.ec2}:*:launch-template/*"]
      Condition = {
        StringEquals = local.owned_resource
        StringLike   = local.nodepool_resource
      }
    },
  ]

  iam_integration_statements = [
    {
      Sid      = "AllowPassingInstanceRole"
      Effect   = "Allow"
      Action   = "iam:PassRole"
      Resource = local.node_role_arn
      Condition = {
        StringEquals = { "iam:PassedToService" = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"] }
      }
    },
    {
      Sid      = "AllowScopedInstanceProfileCreationActions"
      Effect   = "Allow"
      Action   = "iam:CreateInstanceProfile"
      Resource = local.instance_profiles
      Condition = {
        StringEquals = merge(local.owned_request, local.named_request, local.region_request)
        StringLike   = local.nodeclass_request
      }
    },
    {
      Sid      = "AllowScopedInstanceProfileTagActions"
      Effect   = "Allow"
      Action   = "iam:TagInstanceProfile"
      Resource = local.instance_profiles
      Condition = {
        StringEquals = merge(local.owned_resource, local.region_resource, local.owned_request, local.named_request, local.region_request)
        StringLike   = merge(local.nodeclass_resource, local.nodeclass_request)
      }
    },
    {
      Sid      = "AllowScopedInstanceProfileActions"
      Effect   = "Allow"
      Action   = ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"]
      Resource = local.instance_profiles
      Condition = {
        StringEquals = merge(local.owned_resource, local.region_resource)
        StringLike   = local.nodeclass_resource
      }
    },
  ]

  eks_integration_statements = [{
    Sid      = "AllowAPIServerEndpointDiscovery"
    Effect   = "Allow"
    Action   = "eks:DescribeCluster"
    Resource = local.cluster_arn
  }]

  interruption_statements = [
    for queue in aws_sqs_queue.this : {
      Sid      = "AllowInterruptionQueueActions"
      Effect   = "Allow"
      Action   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
      Resource = queue.arn
    }
  ]

  zonal_shift_statements = [{
    Sid      = "AllowZonalShiftStatusReadOnly"
    Effect   = "Allow"
    Action   = "arc-zonal-shift:GetManagedResource"
    Resource = "*"
    Condition = {
      StringEquals = { "arc-zonal-shift:ResourceIdentifier" = local.cluster_arn }
    }
  }]

  resource_discovery_statements = [
    {
      Sid    = "AllowRegionalReadActions"
      Effect = "Allow"
      Action = [
        "ec2:DescribeCapacityReservations",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceStatus",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstances",
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeSubnets",
      ]
      Resource = "*"
      Condition = {
        StringEquals = { "aws:RequestedRegion" = local.region }
      }
    },
    {
      Sid      = "AllowSSMReadActions"
      Effect   = "Allow"
      Action   = "ssm:GetParameter"
      Resource = "arn:${local.partition}:ssm:${local.region}::parameter/aws/service/*"
    },
    {
      Sid      = "AllowPricingReadActions"
      Effect   = "Allow"
      Action   = "pricing:GetProducts"
      Resource = "*"
    },
    {
      Sid      = "AllowUnscopedInstanceProfileListAction"
      Effect   = "Allow"
      Action   = "iam:ListInstanceProfiles"
      Resource = "*"
    },
    {
      Sid      = "AllowInstanceProfileReadActions"
      Effect   = "Allow"
      Action   = "iam:GetInstanceProfile"
      Resource = local.instance_profiles
    },
  ]

  # A separate policy, because one policy may not have more than 6,144 characters.
  controller_policies = merge(
    {
      NodeLifecycle     = { description = "nodes", statements = local.node_lifecycle_statements }
      IAMIntegration    = { description = "instance profiles", statements = local.iam_integration_statements }
      EKSIntegration    = { description = "the cluster", statements = local.eks_integration_statements }
      ResourceDiscovery = { description = "what there is", statements = local.resource_discovery_statements }
    },
    var.interruption_queue ? { Interruption = { description = "interruptions", statements = local.interruption_statements } } : {},
    var.zonal_shift ? { ZonalShift = { description = "zonal shifts", statements = local.zonal_shift_statements } } : {},
  )
}

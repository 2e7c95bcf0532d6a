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
    defaults = { arn = "arn:aws:iam::123456789012:role/karpenter/Mocked" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/Karpenter-demo"
    }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/Mocked" }
  }
}

# The nodes' role and the controller's are of one type: this distinguishes them.
override_resource {
  target = aws_iam_role.node
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterNode-demo" }
}

variables {
  cluster_name      = "demo"
  oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  oidc_issuer_url   = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
}

run "irsa_by_default" {
  command = plan

  assert {
    condition     = toset(keys(aws_iam_role.this)) == toset(["karpenter_controller"]) && aws_iam_role.this["karpenter_controller"].name == "KarpenterController-demo-eu-central-1"
    error_message = "There is one role for the controller."
  }
  assert {
    condition = jsondecode(aws_iam_role.this["karpenter_controller"].assume_role_policy).Statement == [{
      Sid       = "KarpenterServiceAccounts"
      Effect    = "Allow"
      Principal = { Federated = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = {
        StringEquals = {
          "oidc.eks.eu-central-1.amazonaws.com/id/ABCD:aud" = ["sts.amazonaws.com"]
          "oidc.eks.eu-central-1.amazonaws.com/id/ABCD:sub" = ["system:serviceaccount:karpenter:karpenter"]
        }
      }
    }]
    error_message = "Only Karpenter's service account of this cluster may assume the role."
  }
  assert {
    condition     = length(aws_eks_pod_identity_association.this) == 0
    error_message = "IRSA needs no association."
  }
  assert {
    condition     = toset(keys(aws_iam_role_policy_attachment.controller)) == toset(["karpenter_controller/NodeLifecycle", "karpenter_controller/IAMIntegration", "karpenter_controller/EKSIntegration", "karpenter_controller/Interruption", "karpenter_controller/ResourceDiscovery"])
    error_message = "The role has Karpenter's policies."
  }
  assert {
    condition     = output.karpenter_iam_role_arn == "arn:aws:iam::123456789012:role/karpenter/Mocked" && output.karpenter_queue_name == "Karpenter-demo"
    error_message = "The outputs have the values of Karpenter's chart."
  }
  assert {
    condition     = output.iam_roles["karpenter_controller"].taken_by == "IRSA" && output.iam_roles["karpenter_controller"].service == "eks.amazonaws.com"
    error_message = "The output shows how the role is assumed."
  }
}

run "policies" {
  command = plan

  variables {
    zonal_shift = true
  }

  assert {
    condition = toset(flatten([for p in aws_iam_policy.controller : jsondecode(p.policy).Statement[*].Sid])) == toset([
      "AllowAPIServerEndpointDiscovery", "AllowInstanceProfileReadActions", "AllowInterruptionQueueActions", "AllowPassingInstanceRole",
      "AllowPricingReadActions", "AllowRegionalReadActions", "AllowSSMReadActions", "AllowScopedDeletion", "AllowScopedEC2InstanceAccessActions",
      "AllowScopedEC2InstanceActionsWithTags", "AllowScopedEC2LaunchTemplateAccessActions", "AllowScopedInstanceProfileActions",
      "AllowScopedInstanceProfileCreationActions", "AllowScopedInstanceProfileTagActions", "AllowScopedResourceCreationTagging",
      "AllowScopedResourceTagging", "AllowUnscopedInstanceProfileListAction", "AllowZonalShiftStatusReadOnly",
    ])
    error_message = "The statements are those Karpenter is published with."
  }
  assert {
    condition     = toset(flatten([for p in aws_iam_policy.controller : [for s in jsondecode(p.policy).Statement : s.Sid if contains(flatten([s.Resource]), "*")]])) == toset(["AllowPricingReadActions", "AllowRegionalReadActions", "AllowUnscopedInstanceProfileListAction", "AllowZonalShiftStatusReadOnly"])
    error_message = "Only actions that AWS does not restrict to resources apply to all of them."
  }
  assert {
    condition     = !anytrue(flatten([for p in aws_iam_policy.controller : [for s in jsondecode(p.policy).Statement : [for a in flatten([s.Action]) : strcontains(a, "*")]]]))
    error_message = "No action is a wildcard."
  }
  assert {
    condition     = alltrue(flatten([for p in aws_iam_policy.controller : [for s in jsondecode(p.policy).Statement : [for a in flatten([s.Action]) : can(regex("^(ec2:Describe|iam:(Get|List)|ssm:Get|pricing:Get|eks:Describe|arc-zonal-shift:Get|sqs:)", a)) || contains(keys(s), "Condition") || s.Sid == "AllowScopedEC2InstanceAccessActions"]]]))
    error_message = "Every statement that allows changes has a condition."
  }
  assert {
    condition     = alltrue([for s in jsondecode(aws_iam_policy.controller["NodeLifecycle"].policy).Statement : contains(["AllowScopedEC2InstanceAccessActions"], s.Sid) || contains(values(s.Condition.StringEquals), "owned")])
    error_message = "Karpenter touches only what belongs to this cluster."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_policy.controller["IAMIntegration"].policy).Statement : s.Sid => s.Resource }["AllowPassingInstanceRole"] == "arn:aws:iam::123456789012:role/KarpenterNode-demo"
    error_message = "Karpenter passes only the nodes' role."
  }
  assert {
    condition     = jsondecode(aws_iam_policy.controller["Interruption"].policy).Statement[0].Resource == "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo"
    error_message = "Karpenter reads only its queue."
  }
  assert {
    condition     = jsondecode(aws_iam_policy.controller["EKSIntegration"].policy).Statement[0].Resource == "arn:aws:eks:eu-central-1:123456789012:cluster/demo" && jsondecode(aws_iam_policy.controller["ZonalShift"].policy).Statement[0].Condition.StringEquals["arc-zonal-shift:ResourceIdentifier"] == "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
    error_message = "Karpenter reads only its cluster."
  }
  assert {
    condition     = alltrue([for s in concat(jsondecode(aws_iam_policy.controller["NodeLifecycle"].policy).Statement, jsondecode(aws_iam_policy.controller["IAMIntegration"].policy).Statement) : s.Condition.StringEquals["aws:RequestTag/eks:eks-cluster-name"] == "demo" if contains(["AllowScopedEC2InstanceActionsWithTags", "AllowScopedResourceCreationTagging", "AllowScopedInstanceProfileCreationActions", "AllowScopedInstanceProfileTagActions"], s.Sid)])
    error_message = "Created resources have the cluster's name."
  }
}

run "a_release_before_1_0" {
  command = plan

  variables {
    karpenter_version = "0.37.0"
  }

  assert {
    condition     = !anytrue([for s in concat(jsondecode(aws_iam_policy.controller["NodeLifecycle"].policy).Statement, jsondecode(aws_iam_policy.controller["IAMIntegration"].policy).Statement) : contains(keys(try(s.Condition.StringEquals, {})), "aws:RequestTag/eks:eks-cluster-name")])
    error_message = "A tag that such a release does not set is not required."
  }
  assert {
    condition     = alltrue([for s in jsondecode(aws_iam_policy.controller["NodeLifecycle"].policy).Statement : s.Sid == "AllowScopedEC2InstanceAccessActions" || contains(values(s.Condition.StringEquals), "owned")])
    error_message = "It still touches only what belongs to this cluster."
  }
}

run "nodes" {
  command = plan

  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[*].Principal.Service == ["ec2.amazonaws.com"] && aws_iam_role.node[0].name == "KarpenterNode-demo-eu-central-1"
    error_message = "Only instances may assume the nodes' role."
  }
  assert {
    condition     = { for k, a in aws_iam_role_policy_attachment.node : k => a.policy_arn } == { for n in ["AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore"] : n => "arn:aws:iam::aws:policy/${n}" }
    error_message = "The nodes' role has the managed policies of a node."
  }
  assert {
    condition     = aws_iam_instance_profile.node[0].name == "KarpenterNode-demo-eu-central-1" && output.karpenter_instance_profile_name == "KarpenterNode-demo-eu-central-1" && output.karpenter_node_role_name == "KarpenterNode-demo" && output.karpenter_node_role_arn == "arn:aws:iam::123456789012:role/KarpenterNode-demo"
    error_message = "An EC2NodeClass can name the role or the instance profile."
  }
  assert {
    condition     = aws_eks_access_entry.node[0].type == "EC2_LINUX" && aws_eks_access_entry.node[0].principal_arn == "arn:aws:iam::123456789012:role/KarpenterNode-demo" && aws_eks_access_entry.node[0].cluster_name == "demo"
    error_message = "Karpenter's nodes may join the cluster."
  }
}

run "interruptions" {
  command = plan

  assert {
    condition     = aws_sqs_queue.this[0].sqs_managed_sse_enabled && aws_sqs_queue.this[0].message_retention_seconds == 300 && aws_sqs_queue.this[0].name == "Karpenter-demo"
    error_message = "The queue is encrypted, and messages expire after five minutes."
  }
  assert {
    condition = { for k, r in aws_cloudwatch_event_rule.this : one(jsondecode(r.event_pattern).detail-type) => one(jsondecode(r.event_pattern).source) } == {
      "AWS Health Event"                                       = "aws.health"
      "EC2 Spot Instance Interruption Warning"                 = "aws.ec2"
      "EC2 Instance Rebalance Recommendation"                  = "aws.ec2"
      "EC2 Instance State-change Notification"                 = "aws.ec2"
      "EC2 Capacity Reservation Instance Interruption Warning" = "aws.ec2"
    }
    error_message = "Every event that Karpenter reads reaches it."
  }
  assert {
    condition     = alltrue([for t in aws_cloudwatch_event_target.this : t.arn == "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo"]) && length(aws_cloudwatch_event_target.this) == 5
    error_message = "The rules send to the queue."
  }
  assert {
    condition     = { for s in jsondecode(aws_sqs_queue_policy.this[0].policy).Statement : s.Sid => s.Effect } == { AllowEvents = "Allow", DenyHTTP = "Deny" }
    error_message = "The queue's policy allows events and denies plain HTTP."
  }
  assert {
    condition     = alltrue([for s in jsondecode(aws_sqs_queue_policy.this[0].policy).Statement : s.Principal == { Service = "events.amazonaws.com" } && s.Action == "sqs:SendMessage" && alltrue([for a in s.Condition.ArnEquals["aws:SourceArn"] : startswith(a, "arn:aws:events:eu-central-1:123456789012:rule/")]) if s.Effect == "Allow"])
    error_message = "Only the rules of this cluster send to the queue."
  }
}

run "pod_identity" {
  command = plan

  variables {
    oidc_provider_arn = null
    oidc_issuer_url   = null
    iam_roles         = { karpenter_controller = { service = "pods.eks.amazonaws.com" } }
    service_accounts  = [{ namespace = "kube-system", name = "karpenter" }]
  }

  assert {
    condition = [for s in jsondecode(aws_iam_role.this["karpenter_controller"].assume_role_policy).Statement : [s.Principal, s.Action, s.Condition]] == [[
      { Service = "pods.eks.amazonaws.com" },
      ["sts:AssumeRole", "sts:TagSession"],
      {
        StringEquals = {
          "aws:RequestTag/eks-cluster-arn"            = ["arn:aws:eks:eu-central-1:123456789012:cluster/demo"]
          "aws:RequestTag/kubernetes-namespace"       = ["kube-system"]
          "aws:RequestTag/kubernetes-service-account" = ["karpenter"]
        }
      },
    ]]
    error_message = "Pod Identity gives the role only to Karpenter's service account of this cluster."
  }
  assert {
    condition     = aws_eks_pod_identity_association.this["karpenter_controller/kube-system/karpenter"].service_account == "karpenter" && aws_eks_pod_identity_association.this["karpenter_controller/kube-system/karpenter"].namespace == "kube-system"
    error_message = "The association names the service account."
  }
  assert {
    condition     = output.iam_roles["karpenter_controller"].taken_by == "PodIdentity" && length(aws_iam_role_policy_attachment.controller) == 5
    error_message = "The role has Karpenter's policies."
  }
}

run "several_roles_accounts_and_attachments" {
  command = plan

  variables {
    service_accounts = [{ namespace = "karpenter", name = "karpenter" }, { namespace = "karpenter-gpu", name = "gpu" }]
    iam_roles = {
      karpenter_controller = { name = "KarpenterController", service = "eks.amazonaws.com", tags = { Purpose = "Karpenter Controller" } }
      gpu                  = { name = "KarpenterGPU", service = "pods.eks.amazonaws.com" }
      builder              = { name = "Builder", service = "codebuild.amazonaws.com" }
    }
    iam_roles_attachments = {
      logs = { role_key = "builder", policy_arn = "arn:aws:iam::aws:policy/CloudWatchLogsReadOnlyAccess" }
    }
    tags = { Project = "demo" }
  }

  assert {
    condition     = aws_iam_role.this["karpenter_controller"].tags == tomap({ Project = "demo", Purpose = "Karpenter Controller" })
    error_message = "Tags of the module and of the role are merged."
  }
  assert {
    condition     = jsondecode(aws_iam_role.this["karpenter_controller"].assume_role_policy).Statement[0].Condition.StringEquals["oidc.eks.eu-central-1.amazonaws.com/id/ABCD:sub"] == ["system:serviceaccount:karpenter:karpenter", "system:serviceaccount:karpenter-gpu:gpu"]
    error_message = "Every service account may assume the role."
  }
  assert {
    condition     = length(jsondecode(aws_iam_role.this["gpu"].assume_role_policy).Statement) == 2 && length(aws_eks_pod_identity_association.this) == 2
    error_message = "Pod Identity has a statement and an association for each service account."
  }
  assert {
    condition     = jsondecode(aws_iam_role.this["builder"].assume_role_policy).Statement[0].Principal == { Service = "codebuild.amazonaws.com" } && !anytrue([for k in keys(aws_iam_role_policy_attachment.controller) : startswith(k, "builder/")])
    error_message = "Another service's role gets none of Karpenter's policies."
  }
  assert {
    condition     = aws_iam_role_policy_attachment.this["logs"].role == "Builder" && aws_iam_role_policy_attachment.this["logs"].policy_arn == "arn:aws:iam::aws:policy/CloudWatchLogsReadOnlyAccess"
    error_message = "Attachments find their role by its key."
  }
  assert {
    condition     = output.karpenter_iam_role_name == "KarpenterController"
    error_message = "The documented key is the controller's role."
  }
}

run "given_roles_and_keys" {
  command = plan

  variables {
    create_node_role           = false
    node_role_arn              = "arn:aws:iam::123456789012:role/eks/nodes"
    node_instance_profile_name = "nodes"
    create_access_entry        = false
    interruption_queue         = false
    iam_roles                  = { other = { name = "OtherKarpenter" } }
  }

  assert {
    condition     = length(aws_iam_role.node) == 0 && length(aws_iam_instance_profile.node) == 0 && length(aws_eks_access_entry.node) == 0
    error_message = "A given role is used, and not changed."
  }
  assert {
    condition     = output.karpenter_node_role_name == "nodes" && output.karpenter_instance_profile_name == "nodes" && output.karpenter_iam_role_name == "OtherKarpenter"
    error_message = "The outputs contain the given values."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_policy.controller["IAMIntegration"].policy).Statement : s.Sid => s.Resource }["AllowPassingInstanceRole"] == "arn:aws:iam::123456789012:role/eks/nodes"
    error_message = "Karpenter passes the given role."
  }
  assert {
    condition     = length(aws_sqs_queue.this) == 0 && length(aws_cloudwatch_event_rule.this) == 0 && output.karpenter_queue_name == "" && !contains(keys(aws_iam_policy.controller), "Interruption")
    error_message = "Without a queue its rules and policies do not exist."
  }
}

run "an_existing_instance_profile" {
  command = plan

  variables {
    create_instance_profile    = false
    node_instance_profile_name = "nodes"
  }

  override_data {
    target = data.aws_iam_instance_profile.node
    values = { role_arn = "arn:aws:iam::123456789012:role/eks/existing", role_name = "existing" }
  }

  assert {
    condition     = length(aws_iam_role.node) == 0 && length(aws_iam_instance_profile.node) == 0 && length(aws_iam_role_policy_attachment.node) == 0
    error_message = "An existing instance profile and its role are not changed."
  }
  assert {
    condition     = data.aws_iam_instance_profile.node[0].name == "nodes" && output.karpenter_instance_profile_name == "nodes" && output.karpenter_node_role_arn == "arn:aws:iam::123456789012:role/eks/existing" && output.karpenter_node_role_name == "existing"
    error_message = "The outputs contain the existing instance profile and its role."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_policy.controller["IAMIntegration"].policy).Statement : s.Sid => s.Resource }["AllowPassingInstanceRole"] == "arn:aws:iam::123456789012:role/eks/existing"
    error_message = "Karpenter passes the role of the instance profile."
  }
  assert {
    condition     = aws_eks_access_entry.node[0].principal_arn == "arn:aws:iam::123456789012:role/eks/existing"
    error_message = "Nodes with the role may join the cluster."
  }
}

run "long_names_still_fit" {
  command = plan

  variables {
    cluster_name = "a-cluster-name-of-one-hundred-characters-which-eks-allows-although-no-iam-role-may-have-a-name-so"
    region       = "eu-west-1"
  }

  assert {
    condition     = length(aws_iam_role.this["karpenter_controller"].name) <= 64 && length(aws_iam_role.node[0].name) <= 64 && length(aws_sqs_queue.this[0].name) <= 80
    error_message = "Names are truncated to AWS's limit."
  }
  assert {
    condition     = alltrue([for p in aws_iam_policy.controller : length(p.policy) <= 6144 && length(p.name) <= 128])
    error_message = "Policies do not exceed AWS's limit."
  }
  assert {
    condition     = jsondecode(aws_iam_policy.controller["ResourceDiscovery"].policy).Statement[0].Condition.StringEquals["aws:RequestedRegion"] == "eu-west-1" && aws_sqs_queue.this[0].region == "eu-west-1"
    error_message = "A given region takes precedence over the provider's."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    oidc_issuer_url            = "oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
    node_role_name             = "Nodes"
    node_instance_profile_name = "NodesProfile"
    node_policy_arns           = { cloudwatch = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy" }
    cni_policy                 = false
    ssm_policy                 = false
    queue_name                 = "interruptions"
    permissions_boundary_arn   = "arn:aws:iam::123456789012:policy/boundary"
    tags                       = { Team = "platform" }
  }

  assert {
    condition     = contains(keys(jsondecode(aws_iam_role.this["karpenter_controller"].assume_role_policy).Statement[0].Condition.StringEquals), "oidc.eks.eu-central-1.amazonaws.com/id/ABCD:sub")
    error_message = "The issuer may be without its scheme."
  }
  assert {
    condition     = toset(keys(aws_iam_role_policy_attachment.node)) == toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "cloudwatch"]) && aws_iam_role.node[0].name == "Nodes" && aws_iam_instance_profile.node[0].name == "NodesProfile"
    error_message = "Nodes have the policies and names of the variables."
  }
  assert {
    condition     = aws_sqs_queue.this[0].name == "interruptions" && output.karpenter_queue_name == "interruptions"
    error_message = "The queue has the given name."
  }
  assert {
    condition     = alltrue([for r in [aws_iam_role.node[0], aws_iam_role.this["karpenter_controller"]] : r.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"])
    error_message = "Every role has the boundary."
  }
  assert {
    condition     = alltrue([for t in [aws_iam_role.node[0].tags, aws_iam_role.this["karpenter_controller"].tags, aws_iam_policy.controller["NodeLifecycle"].tags, aws_iam_instance_profile.node[0].tags, aws_sqs_queue.this[0].tags, aws_cloudwatch_event_rule.this["Rebalance"].tags, aws_eks_access_entry.node[0].tags] : t["Team"] == "platform"])
    error_message = "Tags are set on every resource."
  }
}

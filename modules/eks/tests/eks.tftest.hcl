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
  mock_data "aws_eks_addon_version" {
    defaults = { version = "v1.0.0-eksbuild.1" }
  }
  mock_data "aws_subnet" {
    defaults = { availability_zone = "eu-central-1a" }
  }
  mock_data "aws_instances" {
    defaults = { ids = ["i-0aaaaaaaaaaaaaaaa"] }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      arn                   = "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
      endpoint              = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
      certificate_authority = [{ data = "Q0E=" }]
      identity              = [{ oidc = [{ issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }] }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/Mocked" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_eks_node_group" {
    defaults = {
      arn             = "arn:aws:eks:eu-central-1:123456789012:nodegroup/demo/system-2025/0"
      node_group_name = "system-2025"
    }
  }
  mock_resource "aws_eks_fargate_profile" {
    defaults = { arn = "arn:aws:eks:eu-central-1:123456789012:fargateprofile/demo/x/0" }
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

# Distinguishes the roles, which a mock would give one id.
override_resource {
  target = module.karpenter_iam.aws_iam_role.this
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterController-demo" }
}
override_resource {
  target = module.karpenter_iam.aws_iam_role.node
  values = { arn = "arn:aws:iam::123456789012:role/KarpenterNode-demo" }
}

variables {
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-a", "subnet-b"]
}

run "a_node_group_by_default" {
  command = plan

  assert {
    condition     = output.node_group_name == "system-2025" && length(output.fargate_profile_names) == 0
    error_message = "Flux and Karpenter have a node group to run on."
  }
  assert {
    condition     = module.node_group[0].desired_size == 2
    error_message = "There are two nodes: Karpenter's replicas do not share one."
  }
  assert {
    condition     = keys(output.cluster_addons) == ["coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    error_message = "The default add-ons are installed."
  }
  assert {
    condition     = output.cluster_name == "demo" && output.cluster_version == "1.33" && output.cluster_endpoint == "https://ABCD.gr7.eu-central-1.eks.amazonaws.com" && output.cluster_certificate_authority_data == "Q0E=" && output.cluster_arn == "arn:aws:eks:eu-central-1:123456789012:cluster/demo" && output.region == "eu-central-1"
    error_message = "The outputs describe the cluster."
  }
  assert {
    condition     = output.oidc_provider_url == "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" && output.oidc_provider == "oidc.eks.eu-central-1.amazonaws.com/id/ABCD" && output.oidc_provider_arn == "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
    error_message = "The outputs give the issuer."
  }
  assert {
    condition     = output.karpenter_iam_role_arn == "arn:aws:iam::123456789012:role/KarpenterController-demo" && output.karpenter_queue_name == "Karpenter-demo"
    error_message = "The outputs have the values of Karpenter's chart."
  }
  assert {
    condition     = output.karpenter_node_role_name == "KarpenterNode-demo" && output.karpenter_node_role_arn == "arn:aws:iam::123456789012:role/KarpenterNode-demo" && output.karpenter_instance_profile_name == "KarpenterNode-demo-eu-central-1"
    error_message = "The outputs have the values of an EC2NodeClass."
  }
  assert {
    condition     = output.karpenter_namespace == "karpenter" && output.karpenter_service_account == "karpenter" && output.node_security_group_id != "" && output.cluster_security_group_id != ""
    error_message = "The outputs show where Karpenter runs."
  }
  assert {
    condition     = output.karpenter_identity == "IRSA" && output.karpenter_irsa_role_arn == output.karpenter_iam_role_arn && output.karpenter_subnet_selector_terms == [for id in var.subnet_ids : { id = id }]
    error_message = "The outputs have the values of IRSA, and the subnets by id."
  }
  assert {
    condition     = one(output.security_group_ids) == output.node_security_group_id
    error_message = "Machines and machine pools get the nodes' group, not the control plane's."
  }
}

run "fargate" {
  command = plan

  variables {
    compute = "Fargate"
    cluster_addons = {
      coredns = { configuration_values = "{\"replicaCount\":3}" }
    }
  }

  assert {
    condition     = output.fargate_profile_names == tolist(["coredns", "flux-system", "karpenter"]) && output.node_group_name == null
    error_message = "Flux, Karpenter and CoreDNS run on Fargate."
  }
  assert {
    condition     = jsondecode(local.fargate_configuration["coredns"]) == { computeType = "Fargate", replicaCount = 3 }
    error_message = "CoreDNS requests Fargate and keeps its settings."
  }
  assert {
    condition     = local.fargate_profiles["coredns"].labels["k8s-app"] == "kube-dns" && local.fargate_profiles["flux-system"].namespace == "flux-system"
    error_message = "Of kube-system only CoreDNS runs on Fargate."
  }
}

run "no_compute" {
  command = plan

  variables {
    compute = "None"
  }

  assert {
    condition     = output.node_group_name == null && length(output.fargate_profile_names) == 0 && contains(keys(output.cluster_addons), "coredns")
    error_message = "The module must create no nodes."
  }
}

# A further zone changes neither the control plane nor what runs on its compute.
run "a_further_zone" {
  command = plan

  variables {
    compute                  = "Fargate"
    subnet_ids               = ["subnet-a", "subnet-b", "subnet-c"]
    control_plane_subnet_ids = ["subnet-a", "subnet-b"]
    compute_subnet_ids       = ["subnet-a", "subnet-b"]
  }

  assert {
    condition     = local.compute_subnet_ids == tolist(["subnet-a", "subnet-b"]) && length(output.karpenter_subnet_selector_terms) == 3
    error_message = "Fargate profiles keep their subnets; Karpenter uses all."
  }
}

# Without nodes, the creation of CoreDNS fails, and nodes wait for this module.
run "no_compute_yet" {
  command = plan

  variables {
    compute     = "None"
    nodes_ready = false
  }

  assert {
    condition     = keys(output.cluster_addons) == ["eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    error_message = "Add-ons with pods wait for the first node; the others do not."
  }
}

run "add_ons_are_added" {
  command = plan

  variables {
    default_addons = ["kube-proxy", "coredns"]
    cluster_addons = {
      aws-ebs-csi-driver = {}
      coredns            = { version = "v1.11.4-eksbuild.2" }
    }
  }

  assert {
    condition     = output.cluster_addons == { aws-ebs-csi-driver = "v1.0.0-eksbuild.1", coredns = "v1.11.4-eksbuild.2", kube-proxy = "v1.0.0-eksbuild.1" }
    error_message = "An entry for an add-on does not remove the others."
  }
}

run "pod_identity" {
  command = plan

  variables {
    karpenter_identity           = "PodIdentity"
    karpenter_namespace          = "kube-system"
    karpenter_role_name          = "Karpenter"
    karpenter_interruption_queue = false
  }

  assert {
    condition     = module.karpenter_iam.iam_roles["karpenter_controller"].taken_by == "PodIdentity" && module.karpenter_iam.karpenter_iam_role_name == "Karpenter" && output.karpenter_queue_name == ""
    error_message = "Karpenter can have its role through Pod Identity."
  }
  assert {
    condition     = output.karpenter_identity == "PodIdentity" && output.karpenter_irsa_role_arn == null && output.karpenter_iam_role_arn != null
    error_message = "With Pod Identity there is no annotation for IRSA."
  }
}

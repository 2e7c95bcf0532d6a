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
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "1.33.0-20260901" }
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
    condition     = local.fargate_profiles["coredns"].selectors[0].labels["k8s-app"] == "kube-dns" && local.fargate_profiles["flux-system"].selectors[0].namespace == "flux-system"
    error_message = "Of kube-system only CoreDNS runs on Fargate."
  }
}

run "auto_mode" {
  command = plan

  variables {
    compute        = "AutoMode"
    cluster_addons = { metrics-server = {} }
  }

  assert {
    condition     = output.auto_mode_node_role_arn != null && output.node_group_name == null && length(output.fargate_profile_names) == 0
    error_message = "EKS creates the nodes."
  }
  assert {
    condition     = toset(keys(output.cluster_addons)) == toset(["metrics-server"])
    error_message = "EKS runs the default add-ons itself; others are installed."
  }
  assert {
    condition     = length(module.karpenter_iam) == 0 && output.karpenter_iam_role_arn == null && output.karpenter_queue_name == null && output.karpenter_node_class_spec == null && output.karpenter_node_pool_spec == null && output.karpenter_identity == null
    error_message = "Nothing is created for Karpenter, and its add-ons wait for outputs that do not exist."
  }
}

run "karpenter_beside_auto_mode" {
  command = plan

  variables {
    compute          = "AutoMode"
    create_karpenter = true
  }

  assert {
    condition     = output.auto_mode_node_role_arn != null && output.karpenter_node_class_spec != null && output.karpenter_queue_name == "Karpenter-demo"
    error_message = "Karpenter stays, for example during a migration."
  }
  assert {
    condition     = toset(keys(output.cluster_addons)) == toset(var.default_addons)
    error_message = "Karpenter's nodes keep the add-ons that they need."
  }
}

run "node_groups_beside_auto_mode" {
  command = plan

  variables {
    compute     = "AutoMode"
    node_groups = { batch = {} }
  }

  assert {
    condition     = contains(keys(output.cluster_addons), "vpc-cni") && output.auto_mode_node_role_arn != null
    error_message = "Nodes of a group have a network."
  }
}

run "auto_mode_is_disabled" {
  command = plan

  variables {
    disable_auto_mode = true
  }

  assert {
    condition     = output.auto_mode_node_role_arn == null && output.node_group_name != null && output.karpenter_queue_name != null && contains(keys(output.cluster_addons), "coredns")
    error_message = "The cluster has a node group, Karpenter and the default add-ons."
  }
}

run "an_existing_instance_profile" {
  command = plan

  variables {
    karpenter_create_instance_profile = false
    karpenter_instance_profile_name   = "nodes"
    karpenter_access_entry            = false
  }

  override_data {
    target = module.karpenter_iam.data.aws_iam_instance_profile.node
    values = { role_arn = "arn:aws:iam::123456789012:role/existing" }
  }

  assert {
    condition     = output.karpenter_instance_profile_name == "nodes" && output.karpenter_node_role_name == "existing"
    error_message = "The existing instance profile and its role are used."
  }
}

run "controllers" {
  command = plan

  variables {
    ebs_csi_driver                    = true
    aws_load_balancer_controller_role = true
    cluster_addons                    = { aws-ebs-csi-driver = { most_recent = true } }
  }

  assert {
    condition     = contains(keys(output.cluster_addons), "aws-ebs-csi-driver") && keys(output.addon_role_arns) == ["aws_load_balancer_controller", "ebs_csi_driver"]
    error_message = "The driver and the roles are created."
  }
  assert {
    condition     = output.aws_load_balancer_controller_identity == "PodIdentity" && output.aws_load_balancer_controller_role_arn == null
    error_message = "The add-on learns that the controller has a role, and that its account has no annotation."
  }
}

run "several_node_groups_and_fargate_profiles" {
  command = plan

  variables {
    node_groups = {
      arm = { instance_types = ["m7g.large", "m6g.large"], capacity_type = "Spot", max_size = 10, labels = { team = "a" } }
      gpu = { instance_types = ["g6.xlarge"], ami_type = "AL2023_x86_64_NVIDIA", min_size = 0, taints = [{ key = "gpu", effect = "NoSchedule" }] }
    }
    fargate_profiles = {
      batch = { selectors = [{ namespace = "batch" }, { namespace = "jobs", labels = { fargate = "yes" } }] }
    }
  }

  assert {
    condition     = keys(output.node_group_names) == ["arm", "gpu"] && output.node_group_name == "system-2025" && module.node_groups["gpu"].desired_size == 0
    error_message = "The cluster has further node groups beside that of Flux and Karpenter."
  }
  assert {
    condition     = output.fargate_profile_names == tolist(["batch"]) && length(local.fargate_profiles["batch"].selectors) == 2
    error_message = "A cluster with nodes can have Fargate profiles."
  }
}

run "node_groups_without_other_compute" {
  command = plan

  variables {
    compute     = "None"
    nodes_ready = false
    node_groups = { workers = {} }
  }

  assert {
    condition     = contains(keys(output.cluster_addons), "coredns") && keys(output.node_group_names) == ["workers"]
    error_message = "CoreDNS runs on the group."
  }
}

run "nodes_of_karpenter" {
  command = plan

  assert {
    condition = jsonencode(output.karpenter_node_pool_spec) == jsonencode({
      template = {
        spec = {
          nodeClassRef = { group = "karpenter.k8s.aws", kind = "EC2NodeClass", name = "default" }
          requirements = [
            { key = "kubernetes.io/os", operator = "In", values = ["linux"] },
            { key = "kubernetes.io/arch", operator = "In", values = ["amd64"] },
            { key = "karpenter.sh/capacity-type", operator = "In", values = ["spot", "on-demand"] },
            { key = "karpenter.k8s.aws/instance-category", operator = "In", values = ["c", "m", "r"] },
            { key = "karpenter.k8s.aws/instance-generation", operator = "Gt", values = ["2"] },
          ]
          expireAfter = "720h"
        }
      }
      limits     = { cpu = "1000", memory = "1000Gi" }
      disruption = { consolidationPolicy = "WhenEmptyOrUnderutilized", consolidateAfter = "1m" }
    })
    error_message = "By default Karpenter uses general x86 instances, the cheapest first."
  }
  assert {
    condition = jsonencode(output.karpenter_node_class_spec) == jsonencode({
      instanceProfile            = "KarpenterNode-demo-eu-central-1"
      amiSelectorTerms           = [{ alias = "al2023@v20260901" }]
      subnetSelectorTerms        = [{ id = "subnet-a" }, { id = "subnet-b" }]
      securityGroupSelectorTerms = [{ id = output.node_security_group_id }]
      metadataOptions            = { httpEndpoint = "enabled", httpTokens = "required", httpPutResponseHopLimit = 1 }
    })
    error_message = "Nodes have the cluster's instance profile, subnets and security group."
  }
}

run "releases_that_the_user_names" {
  command = plan

  variables {
    karpenter_node_class = { ami_alias = "al2023@latest" }
    node_group           = { release_version = "1.33.0-20260901" }
  }

  assert {
    condition     = output.karpenter_node_class_spec.amiSelectorTerms[0].alias == "al2023@latest" && length(data.aws_ssm_parameter.karpenter_release) == 0
    error_message = "An alias of the user is used."
  }
  assert {
    condition     = module.node_group[0].release_version == "1.33.0-20260901"
    error_message = "The group of Flux and Karpenter gets the patches too."
  }
}

run "other_nodes_of_karpenter" {
  command = plan

  variables {
    karpenter_node_pool = {
      architectures            = ["arm64", "amd64"]
      capacity_types           = ["on-demand"]
      instance_types           = ["m7g.large"]
      zones                    = ["eu-central-1a"]
      requirements             = [{ key = "karpenter.k8s.aws/instance-local-nvme", operator = "Exists" }]
      labels                   = { team = "a" }
      taints                   = [{ key = "team", value = "a", effect = "NoSchedule" }, { key = "only", effect = "NoExecute" }]
      cpu_limit                = "100"
      termination_grace_period = "1h"
      consolidation_policy     = "WhenEmpty"
      budgets                  = [{ nodes = "10%" }, { nodes = "0", reasons = ["Drifted"], schedule = "0 9 * * mon-fri", duration = "8h" }]
    }
    karpenter_node_class = {
      ami_ids    = ["ami-0123456789abcdef0"]
      ami_family = "Bottlerocket"
      disk_size  = 100
      user_data  = "[settings]"
      tags       = { team = "a" }
    }
  }

  assert {
    condition     = [for r in output.karpenter_node_pool_spec.template.spec.requirements : r.key] == ["kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.k8s.aws/instance-local-nvme"]
    error_message = "Named instance types replace the categories, and further requirements are added."
  }
  assert {
    condition     = jsonencode(output.karpenter_node_pool_spec.template.metadata) == jsonencode({ labels = { team = "a" } }) && jsonencode(output.karpenter_node_pool_spec.template.spec.taints) == jsonencode([{ effect = "NoSchedule", key = "team", value = "a" }, { effect = "NoExecute", key = "only" }]) && output.karpenter_node_pool_spec.template.spec.terminationGracePeriod == "1h"
    error_message = "Labels, taints and the grace period reach the nodes."
  }
  assert {
    condition     = jsonencode(output.karpenter_node_pool_spec.disruption) == jsonencode({ budgets = [{ nodes = "10%" }, { duration = "8h", nodes = "0", reasons = ["Drifted"], schedule = "0 9 * * mon-fri" }], consolidateAfter = "1m", consolidationPolicy = "WhenEmpty" })
    error_message = "Budgets limit the disruption."
  }
  assert {
    condition     = jsonencode(output.karpenter_node_class_spec.amiSelectorTerms) == jsonencode([{ id = "ami-0123456789abcdef0" }]) && output.karpenter_node_class_spec.amiFamily == "Bottlerocket" && output.karpenter_node_class_spec.blockDeviceMappings[0].deviceName == "/dev/xvdb" && output.karpenter_node_class_spec.tags["team"] == "a" && output.karpenter_node_class_spec.userData == "[settings]"
    error_message = "Nodes have the given image and disk."
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
    condition     = module.karpenter_iam[0].iam_roles["karpenter_controller"].taken_by == "PodIdentity" && module.karpenter_iam[0].karpenter_iam_role_name == "Karpenter" && output.karpenter_queue_name == ""
    error_message = "Karpenter can have its role through Pod Identity."
  }
  assert {
    condition     = output.karpenter_identity == "PodIdentity" && output.karpenter_irsa_role_arn == null && output.karpenter_iam_role_arn != null
    error_message = "With Pod Identity there is no annotation for IRSA."
  }
}

run "karpenter_with_ipv6" {
  command = plan

  variables {
    ip_family = "ipv6"
  }

  assert {
    condition     = contains([for r in output.karpenter_node_pool_spec.template.spec.requirements : jsonencode(r)], jsonencode({ key = "karpenter.k8s.aws/instance-hypervisor", operator = "In", values = ["nitro"] }))
    error_message = "Other instances do not have prefixes of IPv6 addresses."
  }
}

run "an_autoscaled_node_group" {
  command = plan

  variables {
    node_groups = { batch = { min_size = 1, max_size = 9, autoscaled = true } }
  }

  override_data {
    target = module.node_groups.data.aws_eks_clusters.all
    values = { names = ["demo"] }
  }
  override_data {
    target = module.node_groups.data.aws_eks_node_groups.all
    values = { names = ["batch-20250101000000000000000001"] }
  }
  override_data {
    target = module.node_groups.data.aws_eks_node_group.existing
    values = { scaling_config = [{ desired_size = 7, min_size = 1, max_size = 9 }], status = "ACTIVE", tags = { Name = "demo-batch" } }
  }

  assert {
    condition     = module.node_groups["batch"].desired_size == 7
    error_message = "A run keeps the number of nodes that an autoscaler has set."
  }
}

variable "karpenter_node_pool" {
  description = <<-EOT
    What CAPT's add-on karpenter-nodepool lets Karpenter create nodes of. requirements are further requirements of the NodePool.
    budgets limit how many nodes are disrupted at once, for example [{ nodes = "10%" }, { nodes = "0", schedule = "0 9 * * mon-fri", duration = "8h" }].
  EOT
  type = object({
    architectures       = optional(list(string), ["amd64"])
    capacity_types      = optional(list(string), ["spot", "on-demand"])
    instance_categories = optional(list(string), ["c", "m", "r"])
    min_generation      = optional(number, 3)
    instance_types      = optional(list(string), [])
    zones               = optional(list(string), [])
    requirements = optional(list(object({
      key      = string
      operator = string
      values   = optional(list(string), [])
    })), [])
    labels = optional(map(string), {})
    taints = optional(list(object({
      key    = string
      value  = optional(string, "")
      effect = string
    })), [])
    cpu_limit                = optional(string, "1000")
    memory_limit             = optional(string, "1000Gi")
    expire_after             = optional(string, "720h")
    termination_grace_period = optional(string)
    consolidation_policy     = optional(string, "WhenEmptyOrUnderutilized")
    consolidate_after        = optional(string, "1m")
    budgets = optional(list(object({
      nodes    = string
      reasons  = optional(list(string), [])
      schedule = optional(string)
      duration = optional(string)
    })), [])
  })
  default  = {}
  nullable = false

  validation {
    condition     = length(var.karpenter_node_pool.architectures) > 0 && alltrue([for a in var.karpenter_node_pool.architectures : contains(["amd64", "arm64"], a)])
    error_message = "architectures of karpenter_node_pool must contain amd64, arm64 or both."
  }

  validation {
    condition     = length(var.karpenter_node_pool.capacity_types) > 0 && alltrue([for c in var.karpenter_node_pool.capacity_types : contains(["on-demand", "reserved", "spot"], c)])
    error_message = "capacity_types of karpenter_node_pool must contain on-demand, spot or reserved."
  }

  validation {
    condition     = contains(["WhenEmpty", "WhenEmptyOrUnderutilized"], var.karpenter_node_pool.consolidation_policy)
    error_message = "consolidation_policy of karpenter_node_pool must be WhenEmpty or WhenEmptyOrUnderutilized."
  }

  validation {
    condition     = alltrue([for b in var.karpenter_node_pool.budgets : can(regex("^(100|[0-9]{1,2})%$|^[0-9]+$", b.nodes)) && (b.schedule == null) == (b.duration == null)])
    error_message = "budgets of karpenter_node_pool must have nodes as a number or a percentage, for example 10%, and schedule and duration together."
  }

  validation {
    condition     = alltrue([for t in var.karpenter_node_pool.taints : contains(["NoSchedule", "PreferNoSchedule", "NoExecute"], t.effect)])
    error_message = "effect of taints in karpenter_node_pool must be NoSchedule, PreferNoSchedule or NoExecute."
  }
}

variable "karpenter_node_class" {
  description = "How CAPT's add-on karpenter-nodepool lets Karpenter create nodes. ami_alias is a family and a release of EKS's images, for example al2023@v20260901. It defaults to the release of Amazon Linux 2023 that is the newest when this module is applied: Karpenter replaces nodes after a run that finds a newer one, and with al2023@latest whenever AWS publishes one. ami_ids are images of your own, with their ami_family."
  type = object({
    ami_alias          = optional(string)
    ami_ids            = optional(list(string), [])
    ami_family         = optional(string)
    disk_size          = optional(number)
    metadata_hop_limit = optional(number, 1)
    user_data          = optional(string)
    tags               = optional(map(string), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.karpenter_node_class.ami_alias == null || can(regex("^(al2023|bottlerocket)@(latest|v[0-9][0-9.]*)$", var.karpenter_node_class.ami_alias))
    error_message = "ami_alias of karpenter_node_class must be a family and a release, for example al2023@v20260901, bottlerocket@v1.42.0 or al2023@latest."
  }

  validation {
    condition     = alltrue([for id in var.karpenter_node_class.ami_ids : can(regex("^ami-[0-9a-f]+$", id))]) && (length(var.karpenter_node_class.ami_ids) == 0) == (var.karpenter_node_class.ami_family == null)
    error_message = "ami_ids of karpenter_node_class must be ids of images, for example ami-0123456789abcdef0, and need ami_family, for example AL2023, Bottlerocket or Custom. Remove ami_family if you use ami_alias."
  }

  validation {
    condition     = var.karpenter_node_class.ami_family == null || try(contains(["AL2023", "Bottlerocket", "Custom"], var.karpenter_node_class.ami_family), false)
    error_message = "ami_family of karpenter_node_class must be AL2023, Bottlerocket or Custom."
  }
}

# The newest release of the image, which Karpenter's nodes have until another run.
data "aws_ssm_parameter" "karpenter_release" {
  count = local.create_karpenter && var.karpenter_node_class.ami_alias == null && length(var.karpenter_node_class.ami_ids) == 0 ? 1 : 0

  region = var.region
  name   = "/aws/service/eks/optimized-ami/${var.kubernetes_version}/amazon-linux-2023/x86_64/standard/recommended/release_version"
}

# The specs of Karpenter's NodePool and EC2NodeClass, which CAPT's add-on
# karpenter-nodepool creates.
locals {
  pool = var.karpenter_node_pool

  pool_requirements = concat(
    [for r in [
      { key = "kubernetes.io/os", operator = "In", values = ["linux"] },
      { key = "kubernetes.io/arch", operator = "In", values = local.pool.architectures },
      # Addresses of IPv6 are assigned as prefixes, which other instances do not have.
      { key = "karpenter.k8s.aws/instance-hypervisor", operator = "In", values = var.ip_family == "ipv6" ? ["nitro"] : [] },
      { key = "karpenter.sh/capacity-type", operator = "In", values = local.pool.capacity_types },
      { key = "karpenter.k8s.aws/instance-category", operator = "In", values = local.pool.instance_categories },
      { key = "karpenter.k8s.aws/instance-generation", operator = "Gt", values = [tostring(local.pool.min_generation - 1)] },
      { key = "node.kubernetes.io/instance-type", operator = "In", values = local.pool.instance_types },
      { key = "topology.kubernetes.io/zone", operator = "In", values = local.pool.zones },
      ] : r if length(r.values) > 0 && !(length(local.pool.instance_types) > 0 && contains(["karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-generation"], r.key))
    ],
    # A requirement such as Exists has no values.
    [for r in local.pool.requirements : { for name, value in r : name => value if name != "values" || length(r.values) > 0 }],
  )

  node_pool_spec = {
    template = merge(
      { for name in ["metadata"] : name => { labels = local.pool.labels } if length(local.pool.labels) > 0 },
      {
        spec = merge(
          {
            nodeClassRef = { group = "karpenter.k8s.aws", kind = "EC2NodeClass", name = "default" }
            requirements = local.pool_requirements
            expireAfter  = local.pool.expire_after
          },
          { for name in ["taints"] : name => [for t in local.pool.taints : { for k, v in t : k => v if v != "" }] if length(local.pool.taints) > 0 },
          { for name in ["terminationGracePeriod"] : name => local.pool.termination_grace_period if local.pool.termination_grace_period != null },
        )
      },
    )
    # The most that all its nodes may have.
    limits = { cpu = local.pool.cpu_limit, memory = local.pool.memory_limit }
    disruption = merge(
      {
        consolidationPolicy = local.pool.consolidation_policy
        consolidateAfter    = local.pool.consolidate_after
      },
      { for name in ["budgets"] : name => [
        for b in local.pool.budgets : merge(
          { nodes = b.nodes },
          { for key in ["reasons"] : key => b.reasons if length(b.reasons) > 0 },
          { for key in ["schedule"] : key => b.schedule if b.schedule != null },
          { for key in ["duration"] : key => b.duration if b.duration != null },
        )
      ] if length(local.pool.budgets) > 0 },
    )
  }

  node_class = var.karpenter_node_class
  # Releases such as 1.33.0-20250715 are al2023@v20250715.
  ami_alias = length(data.aws_ssm_parameter.karpenter_release) > 0 ? "al2023@v${split("-", data.aws_ssm_parameter.karpenter_release[0].insecure_value)[1]}" : coalesce(local.node_class.ami_alias, "al2023@latest")
  node_class_spec = merge(
    {
      # A role would need calls of IAM, which a VPC without internet access cannot make.
      instanceProfile  = one(module.karpenter_iam[*].karpenter_instance_profile_name)
      amiSelectorTerms = [for term in concat([for id in local.node_class.ami_ids : { id = id, alias = null }], [{ id = null, alias = local.ami_alias }]) : { for name, value in term : name => value if value != null } if term.id != null || length(local.node_class.ami_ids) == 0]
      # The cluster's own subnets and security group, by id: those of an existing VPC
      # have no tag karpenter.sh/discovery.
      subnetSelectorTerms        = [for id in var.subnet_ids : { id = id }]
      securityGroupSelectorTerms = [{ id = module.cluster.node_security_group_id }]
      metadataOptions            = { httpEndpoint = "enabled", httpTokens = "required", httpPutResponseHopLimit = local.node_class.metadata_hop_limit }
    },
    { for name in ["amiFamily"] : name => local.node_class.ami_family if local.node_class.ami_family != null },
    { for name in ["userData"] : name => local.node_class.user_data if local.node_class.user_data != null },
    { for name in ["tags"] : name => local.node_class.tags if length(local.node_class.tags) > 0 },
    { for name in ["blockDeviceMappings"] : name => [{
      deviceName = startswith(local.ami_alias, "bottlerocket") || local.node_class.ami_family == "Bottlerocket" ? "/dev/xvdb" : "/dev/xvda"
      ebs        = { volumeSize = "${local.node_class.disk_size}Gi", volumeType = "gp3", encrypted = true, deleteOnTermination = true }
    }] if local.node_class.disk_size != null },
  )
}

variable "name" {
  description = "Name of the node group. Its real name gets a suffix, so that a replacement can be created before the old group is deleted."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$", var.name))
    error_message = "name must begin with a letter or digit and have at most 63 letters, digits, hyphens and underscores, for example workers."
  }
}

variable "cluster_name" {
  description = "EKS cluster of the nodes."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores, for example demo."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version of the nodes, for example 1.33. Defaults to the version of the control plane when the group is created."
  type        = string
  default     = null

  validation {
    condition     = var.kubernetes_version == null || can(regex("^1\\.[1-9][0-9]$", var.kubernetes_version))
    error_message = "kubernetes_version must be a minor version without a patch, for example 1.33."
  }
}

variable "region" {
  description = "Region of the nodes. Defaults to the provider's region."
  type        = string
  default     = null

  validation {
    condition     = var.region == null || can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be the name of a region, for example eu-central-1."
  }
}

variable "subnet_ids" {
  description = "Subnets of the nodes."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "subnet_ids must name at least one subnet."
  }
}

variable "availability_zones" {
  description = "Zones of the nodes: only the subnets in these zones are used. Defaults to the zones of subnet_ids. A change replaces the group, the new nodes first."
  type        = list(string)
  default     = null
}

variable "later_subnet_ids" {
  description = "Subnets that the VPC got later: the first one of each of availability_zones that has none of subnet_ids. A group therefore does not move to subnets that are added."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "instance_types" {
  description = "Instance types of the nodes, the best first. Several of one size make spot capacity easier to get."
  type        = list(string)
  default     = ["m6i.large", "m5.large"]
  nullable    = false

  validation {
    condition     = length(var.instance_types) >= 1 && length(var.instance_types) <= 20 && alltrue([for t in var.instance_types : can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", t))])
    error_message = "instance_types must contain between one and 20 instance types, for example [\"m6i.large\", \"m6a.large\"]."
  }
}

variable "capacity_type" {
  description = "Capacity type of the nodes: OnDemand or Spot (also in AWS's spelling, ON_DEMAND and SPOT)."
  type        = string
  default     = "OnDemand"
  nullable    = false

  validation {
    condition     = contains(["OnDemand", "Spot", "ON_DEMAND", "SPOT"], var.capacity_type)
    error_message = "capacity_type must be OnDemand or Spot."
  }
}

variable "ami_type" {
  description = "Image of the nodes: an EKS AMI type of Amazon Linux 2023 or Bottlerocket that fits the instance types. Defaults to Amazon Linux 2023 for their architecture, without drivers for GPUs and Neuron."
  type        = string
  default     = null

  validation {
    condition     = var.ami_type == null || can(regex("^(AL2023|BOTTLEROCKET)_(x86_64|ARM_64)(_[A-Z]+)*$", var.ami_type))
    error_message = "ami_type must be an AMI type of Amazon Linux 2023 or Bottlerocket, for example AL2023_x86_64_STANDARD, AL2023_ARM_64_STANDARD, BOTTLEROCKET_x86_64 or BOTTLEROCKET_ARM_64; there are no new images of Amazon Linux 2."
  }
}

variable "ami_id" {
  description = "Image of your own, derived from EKS's Amazon Linux 2023, instead of ami_type. EKS then neither chooses the release nor adds what a node needs to join: the module does, with cluster_endpoint, cluster_certificate_authority_data and cluster_service_cidr, unless user_data does it. For another Kubernetes version set another image."
  type        = string
  default     = null

  validation {
    condition     = var.ami_id == null || can(regex("^ami-[0-9a-f]+$", var.ami_id))
    error_message = "ami_id must be the id of an image, for example ami-0123456789abcdef0."
  }
}

variable "cluster_endpoint" {
  description = "Address of the API server, with its scheme. Used with ami_id only."
  type        = string
  default     = null
}

variable "cluster_certificate_authority_data" {
  description = "Certificate authority of the API server, in base64. Used with ami_id only."
  type        = string
  default     = null
}

variable "cluster_service_cidr" {
  description = "Network of the cluster's services. Used with ami_id only."
  type        = string
  default     = null
}

variable "release_version" {
  description = "Release of the image: one such as 1.33.0-20250715, or latest, which is the newest one in each run: EKS then replaces the nodes, as update_config allows. Defaults to the newest when the group is created or its version changes."
  type        = string
  default     = null

  validation {
    condition     = var.release_version == null || can(regex("^(latest|[0-9]+\\.[0-9]+\\.[0-9]+-[0-9a-z]+)$", var.release_version))
    error_message = "release_version must be latest or a release of the image, for example 1.33.0-20250715 of Amazon Linux 2023 or 1.50.0-5d9ac849 of Bottlerocket."
  }
}

variable "force_update" {
  description = "Whether an update continues when pods cannot be evicted because of a disruption budget."
  type        = bool
  default     = false
  nullable    = false
}

variable "disk_size" {
  description = "Size of the disk for images and pods, in GiB."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.disk_size >= 20 && var.disk_size <= 16384 && floor(var.disk_size) == var.disk_size
    error_message = "disk_size must be a whole number of GiB between 20 and 16384."
  }
}

variable "disk_kms_key_arn" {
  description = "KMS key that encrypts the disks. Defaults to the account's key for EBS."
  type        = string
  default     = null
}

variable "min_size" {
  description = "Minimum number of nodes."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.min_size >= 0
    error_message = "min_size must not be negative."
  }
}

variable "max_size" {
  description = "Maximum number of nodes."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = var.max_size >= 1
    error_message = "max_size must be at least 1."
  }
}

variable "desired_size" {
  description = "Number of nodes. Defaults to min_size."
  type        = number
  default     = null
}

variable "autoscaled" {
  description = "Whether another system, such as Cluster Autoscaler, changes the number of nodes. The group then keeps the number that it has, within min_size and max_size; desired_size is the number when the group is created."
  type        = bool
  default     = false
  nullable    = false
}

variable "ip_family" {
  description = "IP family of the cluster: ipv4 or ipv6. Nodes of a cluster with IPv6 need instance types on the Nitro system."
  type        = string
  default     = "ipv4"
  nullable    = false

  validation {
    condition     = contains(["ipv4", "ipv6"], var.ip_family)
    error_message = "ip_family must be ipv4 or ipv6."
  }
}

variable "labels" {
  description = "Labels of the nodes. The kubelet refuses most below kubernetes.io."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k in keys(var.labels) : !can(regex("(^|\\.)(kubernetes|k8s)\\.io/", k)) || can(regex("^([a-z0-9.-]+\\.)?(node|kubelet)\\.kubernetes\\.io/", k))])
    error_message = "labels below kubernetes.io and k8s.io must begin with node.kubernetes.io/ or kubelet.kubernetes.io/: the kubelet does not start with others, such as node-role.kubernetes.io/worker."
  }
}

variable "taints" {
  description = "Taints of the nodes, with the effects as Kubernetes spells them: NoSchedule, PreferNoSchedule, NoExecute."
  type = list(object({
    key    = string
    value  = optional(string)
    effect = string
  }))
  default  = []
  nullable = false

  validation {
    condition     = alltrue([for t in var.taints : contains(["NoSchedule", "PreferNoSchedule", "NoExecute"], t.effect)])
    error_message = "effect of taints must be NoSchedule, PreferNoSchedule or NoExecute."
  }

  validation {
    condition     = length(distinct([for t in var.taints : "${t.key}:${t.effect}"])) == length(var.taints)
    error_message = "taints must contain each pair of key and effect once."
  }
}

variable "update_config" {
  description = "How many nodes may be unavailable during an update: max_unavailable or max_unavailable_percentage. Defaults to a third of them."
  type = object({
    max_unavailable            = optional(number)
    max_unavailable_percentage = optional(number)
  })
  default = null

  validation {
    condition     = var.update_config == null || try((var.update_config.max_unavailable == null) != (var.update_config.max_unavailable_percentage == null), false)
    error_message = "Set exactly one of max_unavailable and max_unavailable_percentage in update_config."
  }
}

variable "max_unavailable" {
  description = "Short for update_config.max_unavailable."
  type        = number
  default     = null

  validation {
    condition     = var.max_unavailable == null || try(var.max_unavailable >= 1 && var.max_unavailable <= 100, false)
    error_message = "max_unavailable must be between 1 and 100."
  }
}

variable "max_unavailable_percentage" {
  description = "Short for update_config.max_unavailable_percentage."
  type        = number
  default     = null

  validation {
    condition     = var.max_unavailable_percentage == null || try(var.max_unavailable_percentage >= 1 && var.max_unavailable_percentage <= 100, false)
    error_message = "max_unavailable_percentage must be between 1 and 100."
  }
}

variable "node_repair" {
  description = "Whether EKS replaces nodes that it finds unhealthy."
  type        = bool
  default     = false
  nullable    = false
}

variable "security_group_ids" {
  description = "Security groups of the nodes: the output security_group_ids of modules/eks. Defaults to the group that EKS created for the control plane."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "metadata_hop_limit" {
  description = "Hop limit of the instance metadata service: 1 blocks access from pods, 2 allows it."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = contains([1, 2], var.metadata_hop_limit)
    error_message = "metadata_hop_limit must be 1 (nodes only) or 2 (pods too)."
  }
}

variable "user_data" {
  description = "Further user data: a MIME multi-part document with a NodeConfig for Amazon Linux 2023, TOML for Bottlerocket. EKS adds what a node needs to join. With ami_id it is the whole user data."
  type        = string
  default     = null
}

variable "detailed_monitoring" {
  description = "Whether CloudWatch gets metrics of the instances every minute, at extra cost."
  type        = bool
  default     = false
  nullable    = false
}

variable "node_role_arn" {
  description = "Role of the nodes. If null, one is created for this group."
  type        = string
  default     = null

  validation {
    condition     = var.node_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", var.node_role_arn))
    error_message = "node_role_arn must be the ARN of an IAM role, for example arn:aws:iam::123456789012:role/nodes."
  }
}

variable "create_node_role" {
  description = "Whether to create the role of the nodes. Defaults to true without node_role_arn. Set it if node_role_arn is known only after the apply."
  type        = bool
  default     = null
}

variable "cni_policy" {
  description = "Whether the role that the module creates has the permissions of the VPC CNI. Set it to false if the add-on vpc-cni has its own role."
  type        = bool
  default     = true
  nullable    = false
}

variable "ssm_policy" {
  description = "Whether the role that the module creates allows Session Manager."
  type        = bool
  default     = true
  nullable    = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the role that the module creates. Defaults to none."
  type        = string
  default     = null
}

variable "timeouts" {
  description = "How long creating, changing and deleting the node group may take, for example 45m. Defaults to the provider's timeout."
  type = object({
    create = optional(string)
    update = optional(string)
    delete = optional(string)
  })
  default  = {}
  nullable = false
}

variable "tags" {
  description = "Tags of everything that the module creates, the instances and their disks included. EKS replaces the nodes after a change."
  type        = map(string)
  default     = {}
  nullable    = false
}

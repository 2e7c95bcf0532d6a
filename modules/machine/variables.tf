variable "name" {
  description = "Name of the machine, which becomes the instance's."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z._-]{0,252}$", var.name))
    error_message = "name must begin with a letter or digit and have at most 253 letters, digits, dots, hyphens and underscores, for example demo-md-0-abcde."
  }
}

variable "cluster_name" {
  description = "EKS cluster that the node joins."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores, for example demo."
  }
}

variable "cluster_endpoint" {
  description = "Address of the API server, with its scheme. If null, it is looked up."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_endpoint == null || try(startswith(var.cluster_endpoint, "https://"), false)
    error_message = "cluster_endpoint must be the address of the API server with its scheme, for example https://ABCD.gr7.eu-central-1.eks.amazonaws.com."
  }
}

variable "cluster_certificate_authority_data" {
  description = "Certificate authority of the API server, in base64. If null, it is looked up."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_certificate_authority_data == null || can(base64decode(var.cluster_certificate_authority_data))
    error_message = "cluster_certificate_authority_data must be base64, as EKS gives it."
  }
}

variable "cluster_service_cidr" {
  description = "Network of the cluster's services. If null, it is looked up."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_service_cidr == null || can(cidrhost(var.cluster_service_cidr, 0))
    error_message = "cluster_service_cidr must be a network in CIDR notation, for example 172.20.0.0/16."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version of the node, for example 1.33."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[1-9][0-9]$", var.kubernetes_version))
    error_message = "kubernetes_version must be a minor version without a patch, for example 1.33."
  }
}

variable "region" {
  description = "Region of the node. Defaults to the provider's region."
  type        = string
  default     = null

  validation {
    condition     = var.region == null || can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be the name of a region, for example eu-central-1."
  }
}

variable "instance_type" {
  description = "Instance type of the node. Its architecture decides the image's."
  type        = string
  default     = "m6i.large"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.instance_type))
    error_message = "instance_type must be an instance type, for example m6i.large."
  }
}

variable "capacity_type" {
  description = "Capacity type of the node: OnDemand or Spot (also in AWS's spelling, ON_DEMAND and SPOT)."
  type        = string
  default     = "OnDemand"
  nullable    = false

  validation {
    condition     = contains(["OnDemand", "Spot", "ON_DEMAND", "SPOT"], var.capacity_type)
    error_message = "capacity_type must be OnDemand or Spot."
  }
}

variable "os" {
  description = "Operating system of the node: AL2023 (Amazon Linux 2023) or Bottlerocket."
  type        = string
  default     = "AL2023"
  nullable    = false

  validation {
    condition     = contains(["AL2023", "Bottlerocket"], var.os)
    error_message = "os must be AL2023 or Bottlerocket."
  }
}

variable "ami_id" {
  description = "Image of the node, of the kind that os selects. Defaults to EKS's newest for kubernetes_version when the node is created."
  type        = string
  default     = null

  validation {
    condition     = var.ami_id == null || can(regex("^ami-", var.ami_id))
    error_message = "ami_id must be the id of an image, for example ami-0123456789abcdef0."
  }
}

variable "subnet_ids" {
  description = "Subnets that the node may be in. The module selects one of those in availability_zone by a hash of the machine's name."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "subnet_ids must name at least one subnet."
  }
}

variable "availability_zone" {
  description = "Zone of the node. Defaults to any of subnet_ids."
  type        = string
  default     = null
}

variable "security_group_ids" {
  description = "Security groups of the node: the output security_group_ids of modules/eks. Defaults to the group that EKS created for the control plane, which is looked up."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "labels" {
  description = "Labels of the node. The kubelet refuses most below kubernetes.io."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k in keys(var.labels) : !can(regex("(^|\\.)(kubernetes|k8s)\\.io/", k)) || can(regex("^([a-z0-9.-]+\\.)?(node|kubelet)\\.kubernetes\\.io/", k))])
    error_message = "labels below kubernetes.io and k8s.io must begin with node.kubernetes.io/ or kubelet.kubernetes.io/: the kubelet does not start with others, such as node-role.kubernetes.io/worker."
  }
}

variable "taints" {
  description = "Taints of the node, with the effects as Kubernetes spells them: NoSchedule, PreferNoSchedule, NoExecute."
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

variable "metadata_hop_limit" {
  description = "Hop limit of the instance metadata service: 1 blocks access from pods, 2 allows it."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = contains([1, 2], var.metadata_hop_limit)
    error_message = "metadata_hop_limit must be 1 (the node only) or 2 (pods too)."
  }
}

variable "instance_profile_name" {
  description = "Instance profile of the node, whose role may join the cluster, for example the output karpenter_instance_profile_name. If null, a role, a profile and an access entry are created for this machine only."
  type        = string
  default     = null
}

variable "create_instance_profile" {
  description = "Whether to create the instance profile and its role. Defaults to true without instance_profile_name. Set it if instance_profile_name is known only after the apply."
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

variable "detailed_monitoring" {
  description = "Whether CloudWatch gets metrics of the instance every minute, at extra cost."
  type        = bool
  default     = false
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

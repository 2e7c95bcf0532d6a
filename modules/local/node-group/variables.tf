variable "name" {
  description = "Name of the node group. A change replaces the group."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.name)) && length(var.name) <= 58
    error_message = "The name must contain only lower-case letters, digits and dashes, begin and end with a letter or digit, and be at most 58 long."
  }
}

variable "cluster_name" {
  description = "Cluster that the nodes belong to."
  type        = string
}

variable "cluster_endpoint" {
  description = "URL of the cluster's API server, from the cluster's outputs; null if it is not known."
  type        = string
  default     = null
}

variable "kubeconfig" {
  description = "Content of a kubeconfig that may write nodes of the cluster."
  type        = string
  sensitive   = true
}

variable "min_size" {
  description = "Minimum number of nodes."
  type        = number
  default     = 1

  validation {
    condition     = var.min_size >= 0 && floor(var.min_size) == var.min_size
    error_message = "Write a whole number, 0 or more."
  }
}

variable "max_size" {
  description = "Maximum number of nodes."
  type        = number
  default     = 3

  validation {
    condition     = var.max_size >= 1 && floor(var.max_size) == var.max_size
    error_message = "Write a whole number, 1 or more."
  }
}

variable "desired_size" {
  description = "Number of nodes. Defaults to min_size. Growing adds nodes at the end, shrinking removes the last ones."
  type        = number
  default     = null

  validation {
    condition     = var.desired_size == null || try(var.desired_size >= 0 && floor(var.desired_size) == var.desired_size, false)
    error_message = "Write a whole number between min_size and max_size, or leave it out."
  }
}

variable "instance_types" {
  description = "Instance types; assigned to the nodes in turn."
  type        = list(string)
  default     = ["m5.large"]

  validation {
    condition     = length(var.instance_types) > 0
    error_message = "Set at least one instance type, such as [\"m5.large\"]."
  }
}

variable "capacity_type" {
  description = "Capacity type: ON_DEMAND or SPOT."
  type        = string
  default     = "ON_DEMAND"

  validation {
    condition     = contains(["ON_DEMAND", "SPOT"], var.capacity_type)
    error_message = "Write ON_DEMAND or SPOT."
  }
}

variable "ami_type" {
  description = "Kind of machine image, which is only recorded here."
  type        = string
  default     = "AL2023_x86_64_STANDARD"
}

variable "disk_size" {
  description = "Size of a node's disk in GiB, which is only recorded here."
  type        = number
  default     = 20

  validation {
    condition     = var.disk_size >= 1
    error_message = "Write a size in GiB, 1 or more."
  }
}

variable "update_config" {
  description = "How nodes are replaced on an update, which is only recorded here; null for the default."
  type        = any
  default     = null
}

variable "labels" {
  description = "Further labels of each node."
  type        = map(string)
  default     = {}
}

variable "taints" {
  description = "Taints of each node."
  type = list(object({
    key    = string
    value  = optional(string)
    effect = string
  }))
  default = []

  validation {
    condition     = alltrue([for taint in var.taints : contains(["NoSchedule", "PreferNoSchedule", "NoExecute"], taint.effect)])
    error_message = "The effect of a taint must be NoSchedule, PreferNoSchedule or NoExecute."
  }

  validation {
    condition     = length(distinct([for taint in var.taints : "${taint.key}:${taint.effect}"])) == length(var.taints)
    error_message = "Two taints have the same key and effect: keep one of them."
  }
}

variable "tags" {
  description = "Tags of the machines, kept in an annotation of each node."
  type        = map(string)
  default     = {}
}

variable "availability_zones" {
  description = "Availability zones; assigned to the nodes in turn."
  type        = list(string)
  default     = ["local-a", "local-b", "local-c"]

  validation {
    condition     = length(var.availability_zones) > 0 && alltrue([for zone in var.availability_zones : can(regex("^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$", zone))])
    error_message = "Set at least one zone. A zone becomes a label: begin and end with a letter or digit, at most 63, such as local-a."
  }
}

variable "kubernetes_version" {
  description = "Version that the nodes report, such as 1.36; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.kubernetes_version == null || can(regex("^v?[0-9]+\\.[0-9]+(\\.[0-9]+)?$", var.kubernetes_version))
    error_message = "Write the version like 1.36 or v1.36.2."
  }
}

variable "program" {
  description = "The program localcluster: a path, or a name that is found on PATH."
  type        = string
  default     = "localcluster"

  validation {
    condition     = var.program != ""
    error_message = "Write the path of localcluster, or leave it out to find it on PATH."
  }
}

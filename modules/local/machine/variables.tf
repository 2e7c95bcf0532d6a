variable "name" {
  description = "Name of the node. A change replaces the node."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", var.name)) && length(var.name) <= 63
    error_message = "The name must contain only lower-case letters, digits, dashes and dots, begin and end with a letter or digit, and be at most 63 long."
  }
}

variable "cluster_name" {
  description = "Cluster that the node belongs to."
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

variable "instance_type" {
  description = "Instance type, which becomes a label of the node."
  type        = string
  default     = "m5.large"
}

variable "labels" {
  description = "Further labels of the node."
  type        = map(string)
  default     = {}
}

variable "taints" {
  description = "Taints of the node."
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
  description = "Tags of the machine, kept in an annotation of the node."
  type        = map(string)
  default     = {}
}

variable "availability_zone" {
  description = "Availability zone. A change replaces the node."
  type        = string
  default     = "local-a"

  validation {
    condition     = can(regex("^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$", var.availability_zone))
    error_message = "The zone becomes a label: begin and end with a letter or digit, at most 63, such as local-a."
  }
}

variable "kubernetes_version" {
  description = "Version that the node reports, such as 1.36; null for none."
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

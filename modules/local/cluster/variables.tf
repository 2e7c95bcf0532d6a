variable "cluster_name" {
  description = "Name of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9]([-_A-Za-z0-9]{0,98}[A-Za-z0-9])?$", var.cluster_name))
    error_message = "The name must begin and end with a letter or digit and contain only letters, digits, dashes and underscores, at most 100."
  }
}

variable "kubernetes_version" {
  description = "Minor version of Kubernetes, such as 1.36; a leading v and a patch version are ignored. A change upgrades the cluster in place."
  type        = string

  validation {
    condition     = can(regex("^v?[0-9]+\\.[0-9]+(\\.[0-9]+)?$", var.kubernetes_version))
    error_message = "Write the version like 1.36 or v1.36.2."
  }
}

variable "region" {
  description = "Region, which is only a name here."
  type        = string
  default     = "local"
}

variable "vpc_id" {
  description = "Network of the cluster; null for none."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Subnets of the control plane."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of the cluster."
  type        = map(string)
  default     = {}
}

variable "endpoint_public_access" {
  description = "Whether the API server can be reached from outside the network. The API server always listens on the loopback address."
  type        = bool
  default     = true
}

variable "endpoint_private_access" {
  description = "Whether the API server can be reached from inside the network."
  type        = bool
  default     = true
}

variable "endpoint_public_access_cidrs" {
  description = "Ranges from which the API server can be reached from outside."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = alltrue([for cidr in var.endpoint_public_access_cidrs : can(cidrhost(cidr, 0))])
    error_message = "Write ranges such as 203.0.113.0/24."
  }
}

variable "cluster_addons" {
  description = "Add-ons of the cluster by name. They are recorded, not installed: no cloud runs them."
  type = map(object({
    version              = optional(string)
    configuration_values = optional(string)
  }))
  default = {}
}

variable "stand_ins" {
  description = "Values of the stand-ins for Karpenter's queue and roles, by the name of the output."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.stand_ins), ["karpenter_iam_role_arn", "karpenter_queue_name", "karpenter_node_role_name"])) == 0
    error_message = "Choose from karpenter_iam_role_arn, karpenter_queue_name and karpenter_node_role_name."
  }
}

variable "directory" {
  description = "Absolute path of the directory that the control plane keeps its files in: an empty one, or one that does not exist. It is removed with the cluster. Defaults to one below parent_directory, named after the cluster and the working directory."
  type        = string
  default     = null

  validation {
    condition     = var.directory == null || try(abspath(var.directory) == var.directory && var.directory != "/", false)
    error_message = "Write an absolute path without dots and without a slash at its end, such as /var/lib/clusters/demo."
  }
}

variable "parent_directory" {
  description = "Absolute path of an existing directory in which the directory of a new control plane is created."
  type        = string
  default     = "/tmp"

  validation {
    condition     = try(abspath(var.parent_directory) == var.parent_directory && var.parent_directory != "/", false)
    error_message = "Write an absolute path without dots and without a slash at its end, such as /var/lib/clusters."
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

variable "with" {
  description = "Parts beside etcd and the API server: controller-manager, scheduler, kwok, workloads. Nodes become ready only with kwok. With workloads, the programs of Flux's and Karpenter's Deployments run on this machine."
  type        = set(string)
  default     = ["controller-manager"]

  validation {
    condition     = length(setsubtract(var.with, ["controller-manager", "scheduler", "kwok", "workloads"])) == 0
    error_message = "Choose from controller-manager, scheduler, kwok and workloads."
  }
}

variable "name" {
  description = "Name of the Fargate profile."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.name)) && !startswith(var.name, "eks-")
    error_message = "name must begin with a letter or digit, not with eks-, and have at most 100 letters, digits, hyphens and underscores, for example flux-system."
  }
}

variable "cluster_name" {
  description = "EKS cluster of the profile."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores, for example demo."
  }
}

variable "region" {
  description = "Region of the cluster. Defaults to the provider's region."
  type        = string
  default     = null

  validation {
    condition     = var.region == null || can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be the name of a region, for example eu-central-1."
  }
}

variable "subnet_ids" {
  description = "Subnets of the pods: private ones, because Fargate supports no others."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "subnet_ids must name at least one private subnet."
  }
}

variable "selectors" {
  description = "Pods that run on Fargate: those of a namespace, or of a namespace with all the labels. Namespaces and labels may contain * and ?."
  type = list(object({
    namespace = string
    labels    = optional(map(string), {})
  }))
  nullable = false

  validation {
    condition     = length(var.selectors) >= 1 && length(var.selectors) <= 5
    error_message = "selectors must contain between one and five selectors: EKS allows no more in a profile."
  }

  validation {
    condition     = alltrue([for s in var.selectors : length(s.labels) <= 5])
    error_message = "A selector of selectors may have at most five labels."
  }
}

variable "pod_execution_role_arn" {
  description = "Role with which Fargate pulls images and writes logs. If null, one is created for this profile."
  type        = string
  default     = null

  validation {
    condition     = var.pod_execution_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", var.pod_execution_role_arn))
    error_message = "pod_execution_role_arn must be the ARN of an IAM role, for example arn:aws:iam::123456789012:role/fargate."
  }
}

variable "create_pod_execution_role" {
  description = "Whether to create the role of the pods. Defaults to true without pod_execution_role_arn. Set it if pod_execution_role_arn is known only after the apply."
  type        = bool
  default     = null
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the role that the module creates. Defaults to none."
  type        = string
  default     = null
}

variable "timeouts" {
  description = "How long creating and deleting the profile may take, for example 20m. Defaults to the provider's timeout."
  type = object({
    create = optional(string)
    delete = optional(string)
  })
  default  = {}
  nullable = false
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

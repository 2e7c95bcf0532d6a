variable "cluster_name" {
  description = "EKS cluster that Karpenter starts nodes for."
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

variable "karpenter_version" {
  description = "Release of Karpenter that the policies are for. Releases before 1.0 do not tag their resources with eks:eks-cluster-name, so the policies do not require the tag for them."
  type        = string
  default     = "1.14.1"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+", var.karpenter_version))
    error_message = "karpenter_version must be a release of Karpenter without a v, for example 1.14.1."
  }
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's IAM OIDC provider. Required for roles that service accounts assume through IRSA."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_provider_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/", var.oidc_provider_arn))
    error_message = "oidc_provider_arn must be the ARN of an IAM OIDC provider, for example arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD."
  }
}

variable "oidc_issuer_url" {
  description = "Issuer of the cluster's service-account tokens, with or without https://. Required for roles that service accounts assume through IRSA."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_issuer_url == null || can(regex("^(https://)?[a-z0-9.-]+(/.*)?$", var.oidc_issuer_url))
    error_message = "oidc_issuer_url must be the cluster's issuer, for example https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD."
  }
}

variable "service_accounts" {
  description = "Service accounts that Karpenter's controllers run as. Only they may assume the controllers' roles."
  type = list(object({
    namespace = string
    name      = string
  }))
  default  = [{ namespace = "karpenter", name = "karpenter" }]
  nullable = false

  validation {
    condition     = length(var.service_accounts) > 0 && alltrue([for a in var.service_accounts : can(regex("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", a.namespace)) && can(regex("^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", a.name))])
    error_message = "service_accounts must contain at least one service account, each with the names of a namespace and an account and no wildcards, for example [{ namespace = \"karpenter\", name = \"karpenter\" }]."
  }
}

variable "iam_roles" {
  description = <<-EOT
    Roles to create, by a key of your choice. service is the principal that assumes a role:
    eks.amazonaws.com: Karpenter's service accounts, through web identity (IRSA); pods.eks.amazonaws.com: the same, through EKS Pod Identity; any other: that AWS service.
    Roles of the first two kinds get Karpenter's policies. Without name it is KarpenterController-CLUSTER-REGION.
  EOT
  type = map(object({
    name    = optional(string)
    service = optional(string, "eks.amazonaws.com")
    tags    = optional(map(string), {})
  }))
  default  = { karpenter_controller = {} }
  nullable = false

  validation {
    condition     = anytrue([for r in values(var.iam_roles) : contains(["eks.amazonaws.com", "pods.eks.amazonaws.com"], r.service)])
    error_message = "iam_roles must contain a role for Karpenter's controller: one whose service is eks.amazonaws.com (IRSA) or pods.eks.amazonaws.com (Pod Identity)."
  }

  validation {
    condition     = alltrue([for r in values(var.iam_roles) : can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)+$", r.service))])
    error_message = "service of iam_roles must be the name of an AWS service, for example eks.amazonaws.com."
  }

  validation {
    condition     = alltrue([for r in values(var.iam_roles) : r.name == null || can(regex("^[0-9A-Za-z+=,.@_-]{1,64}$", r.name))])
    error_message = "name of iam_roles must be a name for a role: at most 64 letters, digits and +=,.@_-."
  }

  validation {
    condition     = length(distinct([for r in values(var.iam_roles) : r.name])) == length(var.iam_roles)
    error_message = "iam_roles must have different names: set name in all but one."
  }
}

variable "iam_roles_attachments" {
  description = "Further policies of the roles: role_key is a key of iam_roles. Karpenter's own policies are attached without being named here."
  type = map(object({
    role_key   = string
    policy_arn = string
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for a in values(var.iam_roles_attachments) : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/", a.policy_arn))])
    error_message = "policy_arn of iam_roles_attachments must be the ARN of an IAM policy, for example arn:aws:iam::aws:policy/CloudWatchReadOnlyAccess."
  }
}

variable "create_node_role" {
  description = "Whether to create the role and the instance profile of Karpenter's nodes. Otherwise set node_role_arn."
  type        = bool
  default     = true
  nullable    = false
}

variable "create_instance_profile" {
  description = "Whether to create the instance profile of Karpenter's nodes, with its role. If false, node_instance_profile_name is an existing one: it is not changed, and its role is that of the nodes."
  type        = bool
  default     = true
  nullable    = false
}

variable "node_role_name" {
  description = "Name of the nodes' role. Defaults to KarpenterNode-CLUSTER-REGION."
  type        = string
  default     = null
}

variable "node_role_arn" {
  description = "Role of Karpenter's nodes, with create_node_role = false."
  type        = string
  default     = null

  validation {
    condition     = var.node_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", var.node_role_arn))
    error_message = "node_role_arn must be the ARN of an IAM role, for example arn:aws:iam::123456789012:role/nodes."
  }
}

variable "node_instance_profile_name" {
  description = "Name of the nodes' instance profile: of the one that is created, or of an existing one. Defaults to the name of the nodes' role."
  type        = string
  default     = null
}

variable "node_policy_arns" {
  description = "Further policies of the created role of the nodes, by a key of your choice."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "cni_policy" {
  description = "Whether the nodes' role has the permissions of the VPC CNI. Set it to false if the add-on vpc-cni has its own role."
  type        = bool
  default     = true
  nullable    = false
}

variable "ssm_policy" {
  description = "Whether the nodes' role allows Session Manager."
  type        = bool
  default     = true
  nullable    = false
}

variable "create_access_entry" {
  description = "Whether to create the access entry with which instances with the nodes' role join the cluster. Set it to false if an access entry for the role exists."
  type        = bool
  default     = true
  nullable    = false
}

variable "interruption_queue" {
  description = "Whether to create the queue from which Karpenter receives interruption notices."
  type        = bool
  default     = true
  nullable    = false
}

variable "queue_name" {
  description = "Name of the queue. Defaults to Karpenter-CLUSTER."
  type        = string
  default     = null

  validation {
    condition     = var.queue_name == null || can(regex("^[0-9A-Za-z_-]{1,80}$", var.queue_name))
    error_message = "queue_name must have at most 80 letters, digits, hyphens and underscores."
  }
}

variable "zonal_shift" {
  description = "Whether Karpenter may ask for the cluster's zonal shifts (its setting enableZonalShift)."
  type        = bool
  default     = false
  nullable    = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the roles that the module creates. Defaults to none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

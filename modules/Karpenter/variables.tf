variable "karpenter_chart_version" {
  description = "Version of the Karpenter Helm chart to install."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+", var.karpenter_chart_version))
    error_message = "karpenter_chart_version must be a version of the chart without a v, for example 1.14.1."
  }
}

variable "cluster_name" {
  description = "EKS cluster name."
  type        = string
  nullable    = false
}

variable "oidc_provider_arn" {
  description = "OIDC provider ARN for EKS cluster. May be null if every role of iam_roles is assumed through Pod Identity."
  type        = string
}

variable "oidc_issuer_url" {
  description = "OIDC issuer URL for EKS cluster. May be null if every role of iam_roles is assumed through Pod Identity."
  type        = string
}

variable "node_instance_profile_name" {
  description = "EC2 instance profile name for Karpenter nodes. It is created, together with its role, unless create_instance_profile or create_node_role is false."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z+=,.@_-]{1,128}$", var.node_instance_profile_name))
    error_message = "node_instance_profile_name must be a name for an instance profile: at most 128 letters, digits and +=,.@_-."
  }
}

variable "cluster_endpoint" {
  description = "EKS cluster endpoint."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.cluster_endpoint, "https://")
    error_message = "cluster_endpoint must be the address of the API server with its scheme, for example https://ABCD.gr7.eu-central-1.eks.amazonaws.com."
  }
}

variable "environment" {
  description = "Environment name. It becomes the tag Environment of everything that the module creates. Null sets no such tag."
  type        = string
  default     = null
}

variable "karpenter_configs" {
  description = <<-EOT
    Map of Karpenter configurations: one Helm release each, whose service account has the name of the release.
    Without version a release has karpenter_chart_version.
    values take precedence over those that the module sets (clusterName, clusterEndpoint, interruptionQueue, the service account), and additional_sets over values.
  EOT
  type = map(object({
    name             = string
    namespace        = string
    chart            = optional(string, "karpenter")
    repository       = optional(string, "oci://public.ecr.aws/karpenter")
    version          = optional(string)
    create_namespace = optional(bool, true)
    values           = optional(list(string), [])
    additional_sets = optional(list(object({
      name  = string
      value = string
      type  = optional(string, "string")
    })), [])
  }))
  nullable = false

  validation {
    condition     = length(var.karpenter_configs) > 0
    error_message = "karpenter_configs must contain at least one configuration, for example { main = { name = \"karpenter\", namespace = \"karpenter\" } }."
  }

  validation {
    condition     = alltrue([for c in values(var.karpenter_configs) : can(regex("^[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?$", c.name)) && can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", c.namespace))])
    error_message = "name and namespace of karpenter_configs must have lower-case letters, digits and hyphens, and name at most 53 of them."
  }

  validation {
    condition     = length(distinct([for c in values(var.karpenter_configs) : "${c.namespace}/${c.name}"])) == length(var.karpenter_configs)
    error_message = "karpenter_configs must contain each release, which is a name in a namespace, once."
  }

  validation {
    condition     = alltrue([for c in values(var.karpenter_configs) : c.version == null || can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+", c.version))])
    error_message = "version of karpenter_configs must be a version of the chart without a v, for example 1.14.1."
  }

  validation {
    condition     = alltrue(flatten([for c in values(var.karpenter_configs) : [for v in c.values : can(yamldecode(v))]]))
    error_message = "values of karpenter_configs must be YAML documents, for example [file(\"karpenter-values.yaml\")]."
  }

  validation {
    condition     = alltrue(flatten([for c in values(var.karpenter_configs) : [for s in c.additional_sets : contains(["auto", "literal", "string"], s.type)]]))
    error_message = "type of additional_sets in karpenter_configs must be string, auto or literal."
  }
}

variable "iam_roles" {
  description = <<-EOT
    Map of IAM roles to create. service is the principal that assumes a role:
    eks.amazonaws.com: the service accounts of karpenter_configs, through web identity (IRSA); pods.eks.amazonaws.com: the same, through EKS Pod Identity; any other: that AWS service.
    Roles of the first two kinds get Karpenter's policies. A release uses the role with its own key, else karpenter_controller, else the first.
  EOT
  type = map(object({
    name    = string
    service = optional(string, "eks.amazonaws.com")
    tags    = optional(map(string), {})
  }))
  nullable = false

  validation {
    condition     = anytrue([for r in values(var.iam_roles) : contains(["eks.amazonaws.com", "pods.eks.amazonaws.com"], r.service)])
    error_message = "iam_roles must contain a role for Karpenter's controller: one whose service is eks.amazonaws.com (IRSA) or pods.eks.amazonaws.com (Pod Identity)."
  }
}

variable "iam_roles_attachments" {
  description = "Map of AWS managed policy attachments to IAM roles: role_key is a key of iam_roles. Karpenter's own policies need no entry."
  type = map(object({
    role_key   = string
    policy_arn = string
  }))
  nullable = false
}

variable "tags" {
  description = "Additional tags for resources."
  type        = map(string)
  default     = {}
  nullable    = false
}

# The variables below are not part of the first version of this module; all have defaults.

variable "helm_enabled" {
  description = "Whether the charts are installed. Without them the module creates only the IAM resources; modules/karpenter-iam does the same and does not declare the Helm provider."
  type        = bool
  default     = true
  nullable    = false
}

variable "region" {
  description = "Region of the cluster. Defaults to the provider's region."
  type        = string
  default     = null
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
}

variable "create_access_entry" {
  description = "Whether to create the access entry with which instances with the nodes' role join the cluster."
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
}

variable "zonal_shift" {
  description = "Whether Karpenter follows zonal shifts of the cluster."
  type        = bool
  default     = false
  nullable    = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the roles that the module creates. Defaults to none."
  type        = string
  default     = null
}

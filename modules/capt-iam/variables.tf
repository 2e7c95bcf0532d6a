variable "name" {
  description = "Name of the role, and prefix of its policies."
  type        = string
  default     = "capt"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z+=,.@_-]{1,50}$", var.name))
    error_message = "name must have at most 50 letters, digits and +=,.@_-, for example capt."
  }
}

variable "create_role" {
  description = "Whether to create a role with the policies. Otherwise attach them yourself, for example to a user or to a role of IAM Identity Center."
  type        = bool
  default     = true
  nullable    = false
}

variable "oidc_provider_arn" {
  description = "IAM OIDC provider of the management cluster: its service_accounts may assume the role (IRSA)."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_provider_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/", var.oidc_provider_arn))
    error_message = "oidc_provider_arn must be the ARN of an IAM OIDC provider, for example arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD."
  }
}

variable "pod_identity_cluster_arn" {
  description = "EKS cluster that CAPT runs in: its service_accounts may assume the role through Pod Identity. Create the associations in that cluster."
  type        = string
  default     = null

  validation {
    condition     = var.pod_identity_cluster_arn == null || can(regex("^arn:[a-z-]+:eks:[a-z0-9-]+:[0-9]{12}:cluster/", var.pod_identity_cluster_arn))
    error_message = "pod_identity_cluster_arn must be the ARN of an EKS cluster, for example arn:aws:eks:eu-central-1:123456789012:cluster/management."
  }
}

variable "trusted_principal_arns" {
  description = "Users and roles that may assume the role, for example the role of CAPT in another account."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.trusted_principal_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", arn))])
    error_message = "trusted_principal_arns must contain ARNs of IAM roles and users, for example arn:aws:iam::123456789012:role/capt; an account or a wildcard is not supported."
  }
}

variable "assume_role_arns" {
  description = "Roles that CAPT may assume, for example the role of this module in another account, whose trusted_principal_arns name this one."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.assume_role_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[0-9A-Za-z+=,.@_/-]+$", arn))])
    error_message = "assume_role_arns must contain ARNs of IAM roles, for example arn:aws:iam::210987654321:role/capt; wildcards are not supported."
  }
}

variable "service_accounts" {
  description = "Service accounts of the management cluster that assume the role: those of the managers, and those of runs (runner.serviceAccountName of a WorkspaceProviderConfig). The managers that call AWS are capt-system/capt-controller-manager and, if clusterctl has installed CAPT, capt-control-plane-system/capt-control-plane-controller-manager, which signs the tokens."
  type = list(object({
    namespace = string
    name      = string
  }))
  default  = [{ namespace = "capt-system", name = "capt-controller-manager" }, { namespace = "capt-control-plane-system", name = "capt-control-plane-controller-manager" }]
  nullable = false

  validation {
    condition     = length(var.service_accounts) > 0 && alltrue([for a in var.service_accounts : can(regex("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", a.namespace)) && can(regex("^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", a.name))])
    error_message = "service_accounts must contain at least one service account, each with the names of a namespace and an account and no wildcards."
  }
}

variable "regions" {
  description = "Regions in which CAPT may act. Empty means all regions. IAM is global."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for r in var.regions : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", r))])
    error_message = "regions must contain names of regions, for example eu-central-1."
  }
}

variable "state_bucket" {
  description = "S3 bucket with the states of workspaces, if a WorkspaceProviderConfig has the backend s3, or a prefix of the keys in it, for example example-terraform-state/capt. Without it, the role has no access to S3."
  type        = string
  default     = null

  validation {
    condition     = var.state_bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[0-9A-Za-z!_.'()/-]+)?$", var.state_bucket))
    error_message = "state_bucket must be the name of a bucket, or a bucket and a prefix without wildcards, for example example-terraform-state/capt."
  }
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary that every role must have that CAPT creates: set the variable permissions_boundary_arn of the templates to it. Without a boundary, CAPT can create roles with any permissions."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be the ARN of an IAM policy, for example arn:aws:iam::123456789012:policy/boundary."
  }
}

variable "cluster_name_prefix" {
  description = "Prefix of the names of all clusters, for example prod-: CAPT then changes and passes only roles, policies and instance profiles that the modules of CAPT name after such clusters, and no others of the account. Empty means all of the account."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([0-9A-Za-z][0-9A-Za-z_-]{0,29})?$", var.cluster_name_prefix))
    error_message = "cluster_name_prefix must have at most 30 letters, digits, hyphens and underscores, for example prod-; wildcards are not supported."
  }
}

variable "role_permissions_boundary_arn" {
  description = "Permissions boundary of the role itself. Defaults to none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

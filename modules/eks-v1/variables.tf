variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores, for example demo."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version, as EKS names it: 1.33. EKS upgrades one minor version at a time and does not downgrade."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[1-9][0-9]$", var.kubernetes_version))
    error_message = "kubernetes_version must be a minor version without a patch, for example 1.33."
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

variable "vpc_id" {
  description = "VPC of the cluster."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^vpc-", var.vpc_id))
    error_message = "vpc_id must be the id of a VPC, for example vpc-0123456789abcdef0."
  }
}

variable "subnet_ids" {
  description = "Subnets of the nodes, in at least two zones: the private ones."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "subnet_ids must name at least two subnets, in different zones: EKS needs two."
  }
}

variable "control_plane_subnet_ids" {
  description = "Subnets of the control plane's network interfaces. Defaults to subnet_ids."
  type        = list(string)
  default     = null

  validation {
    condition     = var.control_plane_subnet_ids == null || try(length(var.control_plane_subnet_ids) >= 2, false)
    error_message = "control_plane_subnet_ids must name at least two subnets, in different zones; leave it out to use subnet_ids."
  }
}

variable "compute_subnet_ids" {
  description = "Subnets of the node groups and the Fargate profiles of this module; zones of node_groups in which none of them is use subnet_ids. Defaults to subnet_ids. A change replaces them: CAPT keeps the first ones if subnet_ids gets more."
  type        = list(string)
  default     = null

  validation {
    condition     = var.compute_subnet_ids == null || try(length(var.compute_subnet_ids) >= 2, false)
    error_message = "compute_subnet_ids must name at least two subnets, in different zones; leave it out to use subnet_ids."
  }
}

variable "endpoint_public_access" {
  description = "Whether the API server can be reached from the internet, by the networks in endpoint_public_access_cidrs."
  type        = bool
  default     = false
  nullable    = false
}

variable "endpoint_private_access" {
  description = "Whether the API server can be reached from inside the VPC."
  type        = bool
  default     = true
  nullable    = false
}

variable "endpoint_public_access_cidrs" {
  description = "Networks that may reach the public endpoint. Required with endpoint_public_access: there is no default, so that opening it to 0.0.0.0/0 is explicit."
  type        = list(string)
  default     = null

  validation {
    condition     = var.endpoint_public_access_cidrs == null || try(length(var.endpoint_public_access_cidrs) > 0, false)
    error_message = "endpoint_public_access_cidrs must not be empty: EKS reads an empty list as 0.0.0.0/0. Name the networks, for example [\"203.0.113.0/24\"], or set endpoint_public_access to false and leave it out."
  }

  validation {
    condition     = var.endpoint_public_access_cidrs == null || try(alltrue([for c in var.endpoint_public_access_cidrs : can(cidrhost(c, 0))]), false)
    error_message = "endpoint_public_access_cidrs must contain networks in CIDR notation, for example 203.0.113.0/24; a single address is 203.0.113.7/32."
  }
}

variable "private_access_cidrs" {
  description = "Networks outside the VPC (peered, VPN) that may reach the private endpoint, for example the one CAPT runs in."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for c in var.private_access_cidrs : can(cidrhost(c, 0)) && !endswith(c, "/0")])
    error_message = "private_access_cidrs must contain networks in CIDR notation, for example 10.200.0.0/16, and not the whole internet."
  }
}

variable "ip_family" {
  description = "Addresses of pods and services: ipv4 or ipv6. With ipv6 the subnets need IPv6 networks and must assign addresses (ipv6 of modules/network), and the VPC CNI gets a role that may assign IPv6 addresses. Cannot be changed later."
  type        = string
  default     = "ipv4"
  nullable    = false

  validation {
    condition     = contains(["ipv4", "ipv6"], var.ip_family)
    error_message = "ip_family must be ipv4 or ipv6."
  }
}

variable "service_ipv4_cidr" {
  description = "Network of the cluster's services. Null lets EKS choose. Cannot be changed later."
  type        = string
  default     = null

  validation {
    condition     = var.service_ipv4_cidr == null || can(cidrhost(var.service_ipv4_cidr, 0))
    error_message = "service_ipv4_cidr must be a network in CIDR notation, for example 172.20.0.0/16."
  }
}

variable "authentication_mode" {
  description = "Authentication mode of the cluster: API (access entries) or API_AND_CONFIG_MAP (also the aws-auth ConfigMap)."
  type        = string
  default     = "API"
  nullable    = false

  validation {
    condition     = contains(["API", "API_AND_CONFIG_MAP"], var.authentication_mode)
    error_message = "authentication_mode must be API or API_AND_CONFIG_MAP: access entries do not work with CONFIG_MAP."
  }
}

variable "cluster_creator_admin" {
  description = "Whether the identity that creates the cluster becomes its administrator, as CAPT's own identity has to be. Used only when the cluster is created; later changes are ignored."
  type        = bool
  default     = true
  nullable    = false
}

variable "cluster_creator_entry" {
  description = "Whether an access entry makes the identity that runs Terraform an administrator. Unlike cluster_creator_admin, which has to be false, it is revoked by setting it to false. It follows the identity of the last run."
  type        = bool
  default     = false
  nullable    = false
}

variable "access_entries" {
  description = "IAM principals that may use the cluster, by a name of your choice, with EKS access policies (policy_associations, by policy_name or policy_arn) or Kubernetes groups."
  type = map(object({
    principal_arn     = string
    type              = optional(string, "STANDARD")
    user_name         = optional(string)
    kubernetes_groups = optional(list(string))
    policy_associations = optional(map(object({
      policy_arn  = optional(string)
      policy_name = optional(string)
      access_scope = optional(object({
        type       = optional(string, "cluster")
        namespaces = optional(list(string))
      }), {})
    })), {})
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for e in values(var.access_entries) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", e.principal_arn))])
    error_message = "principal_arn of access_entries must be the ARN of an IAM role or user, for example arn:aws:iam::123456789012:role/admin."
  }

  validation {
    condition     = alltrue(flatten([for e in values(var.access_entries) : [for p in values(e.policy_associations) : p.policy_arn == null || can(regex("^arn:[a-z-]+:eks::aws:cluster-access-policy/", p.policy_arn))]]))
    error_message = "policy_arn of access_entries must be an EKS access policy, for example arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy."
  }

  validation {
    condition     = alltrue(flatten([for e in values(var.access_entries) : [for p in values(e.policy_associations) : (p.policy_arn == null) != (p.policy_name == null) && (p.policy_name == null || can(regex("^[A-Za-z0-9]+$", p.policy_name)))]]))
    error_message = "Set policy_arn or policy_name, for example AmazonEKSClusterAdminPolicy, in each of the policy_associations of access_entries, and not both."
  }

  validation {
    condition     = alltrue(flatten([for e in values(var.access_entries) : [for p in values(e.policy_associations) : p.access_scope.type == "cluster" ? p.access_scope.namespaces == null : p.access_scope.type == "namespace" && try(length(p.access_scope.namespaces) > 0, false)]]))
    error_message = "access_scope of access_entries must have the type cluster, without namespaces, or the type namespace, with namespaces."
  }
}

variable "kms_key_arn" {
  description = "KMS key that encrypts Kubernetes secrets. If null, one is created for this cluster."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a KMS key, for example arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab; an alias is not supported."
  }
}

variable "create_kms_key" {
  description = "Whether to create the KMS key. Defaults to true without kms_key_arn. Set it if kms_key_arn is known only after the apply."
  type        = bool
  default     = null
}

variable "kms_deletion_window_days" {
  description = "Days during which the deletion of the KMS key can be canceled after the cluster is deleted."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.kms_deletion_window_days >= 7 && var.kms_deletion_window_days <= 30
    error_message = "kms_deletion_window_days must be between 7 and 30."
  }
}

variable "log_types" {
  description = "Control-plane logs that go to CloudWatch: api, audit, authenticator, controllerManager, scheduler."
  type        = set(string)
  default     = ["api", "audit", "authenticator"]
  nullable    = false

  validation {
    condition     = alltrue([for t in var.log_types : contains(["api", "audit", "authenticator", "controllerManager", "scheduler"], t)])
    error_message = "log_types may contain api, audit, authenticator, controllerManager and scheduler."
  }
}

variable "log_retention_days" {
  description = "Retention of control-plane logs in days; 0 means forever."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = contains([0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be a number that CloudWatch supports: 0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

variable "log_kms_key_arn" {
  description = "KMS key that encrypts the logs. Defaults to CloudWatch's own encryption. The key's policy must allow CloudWatch Logs."
  type        = string
  default     = null
}

variable "default_addons" {
  description = "EKS add-ons that are installed without an entry in cluster_addons. Remove vpc-cni to use another CNI."
  type        = set(string)
  default     = ["coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
  nullable    = false
}

variable "cluster_addons" {
  description = <<-EOT
    EKS add-ons by name, in addition to default_addons or instead of them. Without version the add-on gets the default version for kubernetes_version (most_recent: the newest), and so follows an upgrade of the cluster.
    before_compute add-ons are created before anything that waits for the cluster's outputs, such as nodes; by default vpc-cni, kube-proxy and eks-pod-identity-agent.
  EOT
  type = map(object({
    version                  = optional(string)
    most_recent              = optional(bool, false)
    configuration_values     = optional(string)
    service_account_role_arn = optional(string)
    pod_identity_associations = optional(list(object({
      role_arn        = string
      service_account = string
    })), [])
    before_compute              = optional(bool)
    preserve                    = optional(bool, false)
    resolve_conflicts_on_create = optional(string, "OVERWRITE")
    resolve_conflicts_on_update = optional(string, "OVERWRITE")
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for a in values(var.cluster_addons) : a.configuration_values == null || can(jsondecode(a.configuration_values))])
    error_message = "configuration_values of cluster_addons must be JSON, for example {\"replicaCount\":3}."
  }

  validation {
    condition     = alltrue([for a in values(var.cluster_addons) : !(a.most_recent && a.version != null)])
    error_message = "Set version or most_recent in an add-on of cluster_addons, not both."
  }

  validation {
    condition     = alltrue([for a in values(var.cluster_addons) : contains(["NONE", "OVERWRITE"], a.resolve_conflicts_on_create) && contains(["NONE", "OVERWRITE", "PRESERVE"], a.resolve_conflicts_on_update)])
    error_message = "resolve_conflicts_on_create of cluster_addons must be NONE or OVERWRITE, resolve_conflicts_on_update NONE, OVERWRITE or PRESERVE."
  }
}

variable "addon_identity" {
  description = "How the service accounts of the roles below assume them: PodIdentity or IRSA. Pod Identity does not work on Fargate."
  type        = string
  default     = "PodIdentity"
  nullable    = false
}

variable "ebs_csi_driver" {
  description = "Whether to install the EKS add-on aws-ebs-csi-driver, with a role for it. An entry of cluster_addons configures it."
  type        = bool
  default     = false
  nullable    = false
}

variable "ebs_csi_kms_key_arns" {
  description = "KMS keys of your own that volumes are encrypted with. AWS's key needs no entry."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "ebs_csi_policy_arn" {
  description = "Policy of the driver's role. Defaults to AWS's AmazonEBSCSIDriverPolicyV2, which is limited to volumes with the driver's tag. For volumes that you created yourself, set arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy."
  type        = string
  default     = null
}

variable "aws_load_balancer_controller_role" {
  description = "Whether to create a role for the AWS Load Balancer Controller, as CAPT's add-on aws-load-balancer-controller needs it."
  type        = bool
  default     = false
  nullable    = false
}

variable "external_dns_role" {
  description = "Whether to create a role for external-dns, for the zones in external_dns_hosted_zones."
  type        = bool
  default     = false
  nullable    = false
}

variable "external_dns_hosted_zones" {
  description = "Ids of the hosted zones that external-dns may change."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "cert_manager_role" {
  description = "Whether to create a role for cert-manager, to solve DNS-01 challenges in the zones of cert_manager_hosted_zones."
  type        = bool
  default     = false
  nullable    = false
}

variable "cert_manager_hosted_zones" {
  description = "Ids of the hosted zones in which cert-manager may change TXT records."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "addon_service_accounts" {
  description = "Service accounts of the roles, if they differ from the defaults: ebs_csi_driver (kube-system/ebs-csi-controller-sa), vpc_cni (kube-system/aws-node), aws_load_balancer_controller (kube-system/aws-load-balancer-controller), external_dns (external-dns/external-dns), cert_manager (cert-manager/cert-manager)."
  type = map(object({
    namespace = string
    name      = string
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.addon_service_accounts) : contains(["ebs_csi_driver", "aws_load_balancer_controller", "external_dns", "cert_manager", "vpc_cni"], name)])
    error_message = "Keys of addon_service_accounts must be ebs_csi_driver, aws_load_balancer_controller, external_dns, cert_manager or vpc_cni."
  }

  validation {
    condition     = alltrue([for a in values(var.addon_service_accounts) : can(regex("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", a.namespace)) && can(regex("^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", a.name))])
    error_message = "addon_service_accounts must have the names of a namespace and a service account, without wildcards, for example { namespace = \"external-dns\", name = \"external-dns\" }."
  }
}

variable "cluster_security_group_rules" {
  description = "Further ingress rules of the security group that EKS creates for the control plane and Fargate pods."
  type = map(object({
    description                  = string
    ip_protocol                  = optional(string, "tcp")
    from_port                    = optional(number)
    to_port                      = optional(number)
    cidr_ipv4                    = optional(string)
    cidr_ipv6                    = optional(string)
    referenced_security_group_id = optional(string)
  }))
  default  = {}
  nullable = false
}

variable "node_security_group_rules" {
  description = "Further ingress rules of the nodes' security group."
  type = map(object({
    description                  = string
    ip_protocol                  = optional(string, "tcp")
    from_port                    = optional(number)
    to_port                      = optional(number)
    cidr_ipv4                    = optional(string)
    cidr_ipv6                    = optional(string)
    referenced_security_group_id = optional(string)
  }))
  default  = {}
  nullable = false
}

variable "iam_role_arn" {
  description = "Role of the control plane. If null, one is created for this cluster."
  type        = string
  default     = null

  validation {
    condition     = var.iam_role_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", var.iam_role_arn))
    error_message = "iam_role_arn must be the ARN of an IAM role, for example arn:aws:iam::123456789012:role/eks-control-plane."
  }
}

variable "create_iam_role" {
  description = "Whether to create the role of the control plane. Defaults to true without iam_role_arn. Set it if iam_role_arn is known only after the apply, as that of a role in the same configuration."
  type        = bool
  default     = null
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the roles that the module creates. Defaults to none."
  type        = string
  default     = null
}

variable "force_update" {
  description = "Whether an upgrade continues although EKS finds problems in its upgrade insights, such as deprecated APIs that are in use."
  type        = bool
  default     = false
  nullable    = false
}

variable "deletion_protection" {
  description = "Whether AWS refuses to delete the cluster. Disable it in a separate run before you delete the cluster."
  type        = bool
  default     = false
  nullable    = false
}

variable "support_type" {
  description = "What happens at the end of a version's standard support: EXTENDED (costs more) or STANDARD (EKS upgrades the cluster by itself)."
  type        = string
  default     = "EXTENDED"
  nullable    = false

  validation {
    condition     = contains(["EXTENDED", "STANDARD"], var.support_type)
    error_message = "support_type must be EXTENDED or STANDARD."
  }
}

variable "zonal_shift" {
  description = "Whether ARC zonal shifts are enabled for the cluster."
  type        = bool
  default     = false
  nullable    = false
}

variable "timeouts" {
  description = "How long creating, changing and deleting the cluster may take, for example 45m. Defaults to the provider's timeout."
  type = object({
    create = optional(string)
    update = optional(string)
    delete = optional(string)
  })
  default  = {}
  nullable = false
}

variable "compute" {
  description = "Compute for Flux and Karpenter before Karpenter creates nodes: ManagedNodeGroup (a small node group), Fargate (profiles for their namespaces and CoreDNS) or None (you provide nodes). AutoMode is EKS Auto Mode instead of Karpenter: EKS creates all nodes, and runs CoreDNS, the network of pods, the EBS driver and the load balancer controller itself."
  type        = string
  default     = "ManagedNodeGroup"
  nullable    = false

  validation {
    condition     = contains(["ManagedNodeGroup", "Fargate", "AutoMode", "None"], var.compute)
    error_message = "compute must be ManagedNodeGroup, Fargate, AutoMode or None."
  }
}

variable "auto_mode_node_pools" {
  description = "Node pools of EKS, with compute = AutoMode: general-purpose, system or both, or none if you create a NodeClass and NodePools yourself."
  type        = set(string)
  default     = ["general-purpose", "system"]
  nullable    = false
}

variable "disable_auto_mode" {
  description = "Whether to disable EKS Auto Mode in a cluster that had compute = AutoMode: EKS terminates its nodes and deletes its load balancers. Set it with the new compute."
  type        = bool
  default     = false
  nullable    = false
}

variable "nodes_ready" {
  description = "Whether nodes exist, with compute = None. Without nodes, add-ons with pods, such as CoreDNS, cannot be created: set it to false until the first node has joined, and never to false again."
  type        = bool
  default     = true
  nullable    = false
}

variable "node_group" {
  description = "The node group, with compute = ManagedNodeGroup. Two nodes, because Karpenter's two replicas do not share one. No taint by default: Flux tolerates none. release_version is a release of the image, or latest: the newest one in each run."
  type = object({
    name               = optional(string, "system")
    instance_types     = optional(list(string), ["m6i.large", "m5.large"])
    capacity_type      = optional(string, "OnDemand")
    ami_type           = optional(string)
    release_version    = optional(string)
    disk_size          = optional(number, 50)
    min_size           = optional(number, 2)
    max_size           = optional(number, 4)
    desired_size       = optional(number)
    autoscaled         = optional(bool, false)
    labels             = optional(map(string), {})
    metadata_hop_limit = optional(number, 1)
    taints = optional(list(object({
      key    = string
      value  = optional(string)
      effect = string
    })), [])
  })
  default  = {}
  nullable = false
}

variable "node_groups" {
  description = "Further managed node groups, by name, with any compute. The key is the name of the group; the rest is as in node_group, with availability_zones, and ami_id for an image of your own."
  type = map(object({
    instance_types     = optional(list(string), ["m6i.large", "m5.large"])
    capacity_type      = optional(string, "OnDemand")
    ami_type           = optional(string)
    release_version    = optional(string)
    ami_id             = optional(string)
    disk_size          = optional(number, 50)
    min_size           = optional(number, 1)
    max_size           = optional(number, 4)
    desired_size       = optional(number)
    autoscaled         = optional(bool, false)
    availability_zones = optional(list(string))
    labels             = optional(map(string), {})
    metadata_hop_limit = optional(number, 1)
    taints = optional(list(object({
      key    = string
      value  = optional(string)
      effect = string
    })), [])
  }))
  default  = {}
  nullable = false

  validation {
    condition     = !contains(keys(var.node_groups), "system")
    error_message = "node_groups must not contain system, which is the name of node_group: choose another name."
  }
}

variable "fargate_profiles" {
  description = "Further Fargate profiles, by name, with any compute: the pods of up to five selectors each run on Fargate. coredns and the names of fargate_namespaces replace those profiles."
  type = map(object({
    selectors = list(object({
      namespace = string
      labels    = optional(map(string), {})
    }))
  }))
  default  = {}
  nullable = false
}

variable "fargate_namespaces" {
  description = "Namespaces whose pods run on Fargate, with compute = Fargate."
  type        = set(string)
  default     = ["flux-system", "karpenter"]
  nullable    = false
}

variable "create_karpenter" {
  description = "Whether to create the AWS resources that Karpenter needs. Defaults to true, and to false with compute = AutoMode. Set it to true to keep Karpenter beside Auto Mode, for example during a migration."
  type        = bool
  default     = null
}

variable "karpenter_version" {
  description = "Release of Karpenter that is installed."
  type        = string
  default     = "1.14.1"
  nullable    = false
}

variable "karpenter_namespace" {
  description = "Namespace of Karpenter."
  type        = string
  default     = "karpenter"
  nullable    = false
}

variable "karpenter_service_account" {
  description = "Service account of Karpenter's controller."
  type        = string
  default     = "karpenter"
  nullable    = false
}

variable "karpenter_identity" {
  description = "How Karpenter's service account assumes its IAM role: IRSA or PodIdentity. Pod Identity does not work on Fargate."
  type        = string
  default     = "IRSA"
  nullable    = false

  validation {
    condition     = contains(["IRSA", "PodIdentity"], var.karpenter_identity)
    error_message = "karpenter_identity must be IRSA or PodIdentity."
  }
}

variable "karpenter_role_name" {
  description = "Name of the controller's role. Defaults to KarpenterController-CLUSTER-REGION. An existing role keeps its name."
  type        = string
  default     = null
}

variable "karpenter_node_role_name" {
  description = "Name of the role and the instance profile of Karpenter's nodes. Defaults to KarpenterNode-CLUSTER-REGION. Existing ones keep their name."
  type        = string
  default     = null
}

variable "karpenter_create_instance_profile" {
  description = "Whether to create the role and the instance profile of Karpenter's nodes. If false, karpenter_instance_profile_name is an existing one: it is not changed, and its role is that of the nodes."
  type        = bool
  default     = true
  nullable    = false
}

variable "karpenter_instance_profile_name" {
  description = "Existing instance profile of Karpenter's nodes, with karpenter_create_instance_profile = false."
  type        = string
  default     = null
}

variable "karpenter_access_entry" {
  description = "Whether to create the access entry with which Karpenter's nodes join the cluster. Set it to false if an access entry for their role exists, for example because a managed node group has the role."
  type        = bool
  default     = true
  nullable    = false
}

variable "karpenter_interruption_queue" {
  description = "Whether to create the queue from which Karpenter receives interruption notices."
  type        = bool
  default     = true
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

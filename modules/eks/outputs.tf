output "cluster_name" {
  description = "Name of the cluster."
  value       = module.cluster.cluster_name
}

output "cluster_arn" {
  description = "ARN of the cluster."
  value       = module.cluster.cluster_arn
}

output "cluster_endpoint" {
  description = "Address of the API server, with its scheme."
  value       = module.cluster.cluster_endpoint
}

output "cluster_version" {
  description = "Kubernetes version of the control plane."
  value       = module.cluster.cluster_version
}

output "cluster_certificate_authority_data" {
  description = "Certificate authority of the API server, in base64."
  value       = module.cluster.cluster_certificate_authority_data
}

output "cluster_service_cidr" {
  description = "Network of the cluster's services."
  value       = module.cluster.cluster_service_cidr
}

output "cluster_security_group_id" {
  description = "Security group that EKS created for the control plane and Fargate pods."
  value       = module.cluster.cluster_security_group_id
}

output "node_security_group_id" {
  description = "Security group of the nodes. Karpenter finds it by the tag karpenter.sh/discovery."
  value       = module.cluster.node_security_group_id
}

output "security_group_ids" {
  description = "Security groups of further nodes. The modules node-group and machine have a variable with this name, which CAPT sets to it."
  value       = [module.cluster.node_security_group_id]
}

output "oidc_provider_arn" {
  description = "ARN of the IAM OIDC provider of the cluster."
  value       = module.cluster.oidc_provider_arn
}

output "oidc_provider_url" {
  description = "Issuer of the cluster's service-account tokens, with its scheme."
  value       = module.cluster.oidc_provider_url
}

output "oidc_provider" {
  description = "Issuer of the cluster's service-account tokens without its scheme, as trust policies spell it."
  value       = module.cluster.oidc_provider
}

output "kms_key_arn" {
  description = "KMS key that encrypts Kubernetes secrets."
  value       = module.cluster.kms_key_arn
}

output "cluster_addons" {
  description = "Version of each EKS add-on."
  value       = module.cluster.cluster_addons
}

output "addon_role_arns" {
  description = "ARNs of the roles of controllers in the cluster, by the name of the controller."
  value       = module.cluster.addon_role_arns

  precondition {
    condition     = !(var.ebs_csi_driver && var.compute == "Fargate")
    error_message = "The EBS CSI driver does not run on Fargate, and would wait for nodes that Karpenter creates later: set ebs_csi_driver to false, or compute to ManagedNodeGroup."
  }
}

output "aws_load_balancer_controller_identity" {
  description = "How the AWS Load Balancer Controller gets its role: IRSA or PodIdentity. Null without a role: CAPT's add-on then waits for it."
  value       = module.cluster.aws_load_balancer_controller_identity
}

output "aws_load_balancer_controller_role_arn" {
  description = "ARN of the role of the AWS Load Balancer Controller with IRSA, for its service account's annotation eks.amazonaws.com/role-arn. Null with Pod Identity, which needs no annotation."
  value       = module.cluster.aws_load_balancer_controller_irsa_role_arn
}

output "region" {
  description = "Region of the cluster."
  value       = split(":", module.cluster.cluster_arn)[3]
}

output "vpc_id" {
  description = "VPC of the cluster."
  value       = var.vpc_id
}

output "subnet_ids" {
  description = "Subnets of the nodes."
  value       = var.subnet_ids
}

output "node_group_name" {
  description = "Name of the node group that Flux and Karpenter run on. Null without one."
  value       = one(module.node_group[*].node_group_name)
}

output "node_group_role_arn" {
  description = "Role of that node group's nodes. Null without one."
  value       = one(module.node_group[*].node_role_arn)
}

output "node_group_names" {
  description = "Names of the groups of node_groups, by their keys."
  value       = { for name, group in module.node_groups : name => group.node_group_name }
}

output "fargate_profile_names" {
  description = "Names of the Fargate profiles. Empty without them."
  value       = sort([for profile in module.fargate_profile : profile.fargate_profile_name])
}

output "karpenter_iam_role_arn" {
  description = "ARN of the role of Karpenter's controller, for its service account's annotation eks.amazonaws.com/role-arn. This and the other outputs of Karpenter are null without it."
  value       = one(module.karpenter_iam[*].karpenter_iam_role_arn)

  precondition {
    condition     = !(var.compute == "Fargate" && var.karpenter_identity == "PodIdentity")
    error_message = "Pod Identity does not work on Fargate: set karpenter_identity to IRSA, or compute to ManagedNodeGroup."
  }
  precondition {
    condition     = var.compute != "Fargate" || contains(var.fargate_namespaces, var.karpenter_namespace)
    error_message = "With compute = Fargate karpenter_namespace must be one of fargate_namespaces, or Karpenter cannot run."
  }
}

output "karpenter_zonal_shift" {
  description = "Whether Karpenter follows zonal shifts of the cluster, which its role then allows."
  value       = var.zonal_shift
}

output "karpenter_identity" {
  description = "How Karpenter's controller gets its role: IRSA or PodIdentity."
  value       = local.create_karpenter ? var.karpenter_identity : null
}

output "karpenter_irsa_role_arn" {
  description = "ARN of the role of Karpenter's controller with IRSA. Null with Pod Identity: an annotation eks.amazonaws.com/role-arn of the service account would override it."
  value       = var.karpenter_identity == "IRSA" ? one(module.karpenter_iam[*].karpenter_iam_role_arn) : null
}

output "karpenter_subnet_selector_terms" {
  description = "The subnets of the nodes, for spec.subnetSelectorTerms of an EC2NodeClass. They are selected by id: a tag karpenter.sh/discovery has one value, so clusters that share subnets cannot share the tag."
  value       = [for id in var.subnet_ids : { id = id }]
}

output "karpenter_node_pool_spec" {
  description = "Spec of Karpenter's NodePool, for CAPT's add-on karpenter-nodepool."
  value       = local.create_karpenter ? local.node_pool_spec : null
}

output "karpenter_node_class_spec" {
  description = "Spec of Karpenter's EC2NodeClass, for CAPT's add-on karpenter-nodepool."
  value       = local.create_karpenter ? local.node_class_spec : null
}

output "karpenter_queue_name" {
  description = "Name of the interruption queue, for Karpenter's setting interruptionQueue. Empty without a queue."
  value       = one(module.karpenter_iam[*].karpenter_queue_name)
}

output "karpenter_node_role_arn" {
  description = "ARN of the role of Karpenter's nodes."
  value       = one(module.karpenter_iam[*].karpenter_node_role_arn)
}

output "karpenter_node_role_name" {
  description = "Name of the role of Karpenter's nodes, for spec.role of an EC2NodeClass."
  value       = one(module.karpenter_iam[*].karpenter_node_role_name)
}

output "karpenter_instance_profile_name" {
  description = "Name of the instance profile of Karpenter's nodes, for spec.instanceProfile of an EC2NodeClass."
  value       = one(module.karpenter_iam[*].karpenter_instance_profile_name)

  precondition {
    condition     = !(var.karpenter_create_instance_profile && var.karpenter_instance_profile_name != null)
    error_message = "karpenter_instance_profile_name is an existing instance profile: set karpenter_create_instance_profile to false to use it, or karpenter_node_role_name to name the one that is created."
  }
}

output "karpenter_namespace" {
  description = "Namespace of Karpenter."
  value       = var.karpenter_namespace
}

output "karpenter_service_account" {
  description = "Service account of Karpenter's controller."
  value       = var.karpenter_service_account
}

output "auto_mode_node_role_arn" {
  description = "Role of the nodes of EKS Auto Mode, for spec.role of a NodeClass. Null without Auto Mode."
  value       = module.cluster.auto_mode_node_role_arn
}

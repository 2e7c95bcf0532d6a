output "karpenter_releases" {
  description = "Helm release information for Karpenter deployments."
  value = {
    for key, release in helm_release.karpenter : key => {
      name        = release.name
      namespace   = release.namespace
      chart       = release.chart
      version     = release.version
      status      = release.status
      app_version = try(release.metadata.app_version, null)
      revision    = try(release.metadata.revision, null)
    }
  }
}

output "iam_roles" {
  description = "IAM roles created for Karpenter controllers."
  value       = module.iam.iam_roles
}

output "karpenter_iam_role_arn" {
  description = "ARN of the controller's role, for the service account's annotation eks.amazonaws.com/role-arn."
  value       = module.iam.karpenter_iam_role_arn
}

output "karpenter_queue_name" {
  description = "Name of the interruption queue, for Karpenter's setting interruptionQueue. Empty without a queue."
  value       = module.iam.karpenter_queue_name
}

output "karpenter_node_role_arn" {
  description = "ARN of the nodes' role."
  value       = module.iam.karpenter_node_role_arn
}

output "karpenter_node_role_name" {
  description = "Name of the nodes' role, for spec.role of an EC2NodeClass."
  value       = module.iam.karpenter_node_role_name
}

output "karpenter_instance_profile_name" {
  description = "Name of the nodes' instance profile, for spec.instanceProfile of an EC2NodeClass."
  value       = module.iam.karpenter_instance_profile_name
}

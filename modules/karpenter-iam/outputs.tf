output "karpenter_iam_role_arn" {
  description = "ARN of the controller's role, for the service account's annotation eks.amazonaws.com/role-arn. With Pod Identity the account has no annotation."
  value       = aws_iam_role.this[local.main_role].arn
  depends_on  = [aws_iam_role_policy_attachment.controller]
}

output "karpenter_iam_role_name" {
  description = "Name of the controller's role."
  value       = aws_iam_role.this[local.main_role].name
}

output "karpenter_queue_name" {
  description = "Name of the interruption queue, for Karpenter's setting interruptionQueue. Empty without a queue."
  value       = var.interruption_queue ? aws_sqs_queue.this[0].name : ""
  depends_on  = [aws_sqs_queue_policy.this, aws_cloudwatch_event_target.this]
}

output "karpenter_queue_arn" {
  description = "ARN of the interruption queue. Empty without a queue."
  value       = var.interruption_queue ? aws_sqs_queue.this[0].arn : ""
}

output "karpenter_node_role_arn" {
  description = "ARN of the nodes' role."
  value       = local.node_role_arn
}

output "karpenter_node_role_name" {
  description = "Name of the nodes' role, for spec.role of an EC2NodeClass."
  value       = try(basename(local.node_role_arn), null)
}

output "karpenter_instance_profile_name" {
  description = "Name of the nodes' instance profile, for spec.instanceProfile of an EC2NodeClass. Null if it is neither created nor passed."
  value       = local.instance_profile_name
}

output "iam_roles" {
  description = "IAM roles created for Karpenter controllers: arn, name, service and whether it is assumed through IRSA, PodIdentity or a Service."
  value = {
    for key, role in aws_iam_role.this : key => {
      arn       = role.arn
      name      = role.name
      unique_id = role.unique_id
      service   = local.roles[key].service
      taken_by  = contains(local.irsa_roles, key) ? "IRSA" : contains(local.pod_identity_roles, key) ? "PodIdentity" : "Service"
    }
  }
}

output "controller_policy_arns" {
  description = "ARNs of the controller's policies."
  value       = { for key, policy in aws_iam_policy.controller : key => policy.arn }
}

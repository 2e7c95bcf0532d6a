output "role_arn" {
  description = "ARN of the role. Null without one."
  value       = one(aws_iam_role.this[*].arn)
  depends_on  = [aws_iam_role_policy_attachment.this]
}

output "policy_arns" {
  description = "ARNs of the policies, by name: network, clusters, roles, state with state_bucket, and accounts with assume_role_arns."
  value       = { for name, policy in aws_iam_policy.this : name => policy.arn }
}

output "policy_documents" {
  description = "The policies as JSON, by name."
  value       = { for name, policy in local.policies : name => jsonencode({ Version = "2012-10-17", Statement = policy.statements }) }
}

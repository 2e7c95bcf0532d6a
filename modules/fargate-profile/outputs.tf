output "fargate_profile_name" {
  description = "Name of the profile."
  value       = aws_eks_fargate_profile.this.fargate_profile_name
}

output "fargate_profile_arn" {
  description = "ARN of the profile."
  value       = aws_eks_fargate_profile.this.arn
}

output "pod_execution_role_arn" {
  description = "ARN of the role with which Fargate pulls images and writes logs."
  value       = local.role_arn
}

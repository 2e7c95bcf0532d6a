output "role_arn" {
  description = "ARN of the service-linked role."
  value       = aws_iam_service_linked_role.spot.arn
}

output "role_name" {
  description = "Name of the service-linked role."
  value       = aws_iam_service_linked_role.spot.name
}

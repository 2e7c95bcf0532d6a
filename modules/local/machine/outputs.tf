output "provider_id" {
  description = "Provider ID of the node."
  value       = local.provider_id
  depends_on  = [terraform_data.node]
}

output "node_name" {
  description = "Name of the node."
  value       = var.name
  depends_on  = [terraform_data.node]
}

output "addresses" {
  description = "Addresses of the node, each with type and address."
  value       = local.addresses
}

output "availability_zone" {
  description = "Availability zone of the node."
  value       = var.availability_zone
}

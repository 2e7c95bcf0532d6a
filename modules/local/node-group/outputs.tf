output "provider_id_list" {
  description = "Provider IDs of the nodes."
  value       = [for name in local.node_names : local.provider_ids[name]]
  depends_on  = [terraform_data.node]
}

output "node_group_name" {
  description = "Name of the node group."
  value       = var.name
}

output "node_names" {
  description = "Names of the nodes."
  value       = local.node_names
  depends_on  = [terraform_data.node]
}

output "desired_size" {
  description = "Desired number of nodes."
  value       = local.desired_size
}

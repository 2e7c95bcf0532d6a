output "vpc_id" {
  description = "ID of the network."
  value       = "vpc-${substr(replace(terraform_data.vpc.id, "-", ""), 0, 17)}"
}

output "private_subnets" {
  description = "IDs of the private subnets, in the order of the zones."
  value       = [for az in var.azs : "subnet-${substr(replace(terraform_data.private_subnet[az].id, "-", ""), 0, 17)}"]
}

output "public_subnets" {
  description = "IDs of the public subnets, in the order of the zones."
  value       = [for az in var.azs : "subnet-${substr(replace(terraform_data.public_subnet[az].id, "-", ""), 0, 17)}"]
}

output "azs" {
  description = "Availability zones."
  value       = var.azs
}

output "vpc_cidr" {
  description = "IPv4 range of the network."
  value       = var.cidr
}

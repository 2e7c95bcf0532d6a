output "provider_id" {
  description = "Provider id of the node: aws:///ZONE/INSTANCE."
  value       = "aws:///${aws_instance.this.availability_zone}/${aws_instance.this.id}"
}

output "node_name" {
  description = "Name of the node in the cluster."
  value       = aws_instance.this.private_dns
}

output "addresses" {
  description = "Addresses of the node, as Cluster API lists them."
  value = [
    { type = "InternalIP", address = aws_instance.this.private_ip },
    { type = "InternalDNS", address = aws_instance.this.private_dns },
  ]
}

output "availability_zone" {
  description = "Zone of the node."
  value       = aws_instance.this.availability_zone
}

output "instance_id" {
  description = "Id of the instance."
  value       = aws_instance.this.id
}

output "private_ip" {
  description = "Address of the node."
  value       = aws_instance.this.private_ip
}

output "instance_profile_name" {
  description = "Instance profile of the node."
  value       = local.instance_profile_name
}

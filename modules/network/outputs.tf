output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.this.id
}

output "vpc_cidr" {
  description = "IPv4 network of the VPC."
  value       = aws_vpc.this.cidr_block
}

output "vpc_ipv6_cidr" {
  description = "IPv6 network of the VPC. Null without one."
  value       = local.ipv6_cidr
}

output "azs" {
  description = "Zones of the subnets, in the order of the subnets."
  value       = local.azs
}

output "private_subnets" {
  description = "Ids of the private subnets: nodes and internal load balancers."
  value       = [for zone in local.azs : aws_subnet.private[zone].id]
}

output "public_subnets" {
  description = "Ids of the public subnets: internet-facing load balancers and NAT gateways."
  value       = [for zone in local.azs : aws_subnet.public[zone].id]
}

output "intra_subnets" {
  description = "Ids of the subnets without a way out: the control plane's network interfaces."
  value       = [for zone in local.azs : aws_subnet.intra[zone].id]
}

output "private_subnet_cidrs" {
  description = "Networks of the private subnets."
  value       = [for zone in local.azs : local.private_cidrs[zone]]
}

output "public_subnet_cidrs" {
  description = "Networks of the public subnets."
  value       = [for zone in local.azs : local.public_cidrs[zone]]
}

output "intra_subnet_cidrs" {
  description = "Networks of the intra subnets."
  value       = [for zone in local.azs : local.intra_cidrs[zone]]
}

output "private_route_table_ids" {
  description = "Ids of the route tables of the private subnets."
  value       = [for zone in local.azs : aws_route_table.private[zone].id]
}

output "nat_public_ips" {
  description = "Public addresses that traffic of the private subnets comes from."
  value       = [for zone in local.nat_zones : aws_eip.nat[zone].public_ip]
}

output "region" {
  description = "Region of the VPC."
  value       = local.region
}

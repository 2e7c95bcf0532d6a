locals {
  # Services that nodes, the add-ons and Karpenter call without internet access.
  # Pricing has no endpoint in most regions: set Karpenter's isolatedVPC there. SSM's agent
  # uses ssmmessages in place of ec2messages, which new regions do not have.
  isolated_endpoints = [
    "autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth",
    "elasticloadbalancing", "kms", "logs", "sqs", "ssm", "ssmmessages", "sts",
  ]
  interface_endpoints = var.interface_endpoints != null ? var.interface_endpoints : toset(var.nat_gateway == "None" ? local.isolated_endpoints : [])

  # Some services are not offered in every zone of a region. The zones are unknown in
  # GovCloud, and in another region than the provider's, which the lookup cannot have.
  endpoint_zones = {
    for service in local.interface_endpoints : service => try(length(data.aws_vpc_endpoint_service.interface[service].availability_zones), 0) == 0 ? local.azs : [
      for zone in local.azs : zone if contains(data.aws_vpc_endpoint_service.interface[service].availability_zones, zone)
    ]
  }
}

data "aws_vpc_endpoint_service" "interface" {
  for_each = local.region == data.aws_region.current.region ? local.interface_endpoints : toset([])

  service      = each.key
  service_type = "Interface"
}

resource "aws_vpc_endpoint" "gateway" {
  for_each = var.gateway_endpoints

  region            = var.region
  vpc_id            = aws_vpc.this.id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${local.region}.${each.key}"
  route_table_ids   = concat([for table in aws_route_table.private : table.id], [aws_route_table.public.id, aws_route_table.intra.id])

  tags = merge(var.tags, { Name = "${var.name}-${each.key}" })
}

resource "aws_security_group" "endpoints" {
  count = length(local.interface_endpoints) > 0 ? 1 : 0

  region      = var.region
  name_prefix = "${substr(var.name, 0, 200)}-endpoints-"
  description = "Interface endpoints of the VPC"
  vpc_id      = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-endpoints" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  count = length(local.interface_endpoints) > 0 ? 1 : 0

  region            = var.region
  security_group_id = aws_security_group.endpoints[0].id
  description       = "HTTPS from the VPC"
  cidr_ipv4         = aws_vpc.this.cidr_block
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443

  tags = var.tags
}

resource "aws_vpc_endpoint" "interface" {
  for_each = local.interface_endpoints

  region              = var.region
  vpc_id              = aws_vpc.this.id
  vpc_endpoint_type   = "Interface"
  service_name        = "com.amazonaws.${local.region}.${each.key}"
  subnet_ids          = [for zone in local.endpoint_zones[each.key] : aws_subnet.private[zone].id]
  security_group_ids  = [aws_security_group.endpoints[0].id]
  private_dns_enabled = true

  tags = merge(var.tags, { Name = "${var.name}-${each.key}" })

  lifecycle {
    precondition {
      condition     = length(local.endpoint_zones[each.key]) > 0
      error_message = "A service of interface_endpoints is not offered in any zone of azs: choose other zones, or remove the service."
    }
    precondition {
      condition     = !startswith(local.region, "cn-")
      error_message = "In the regions of China, the names of interface endpoints differ from service to service: set interface_endpoints to [], and create the endpoints yourself."
    }
  }
}

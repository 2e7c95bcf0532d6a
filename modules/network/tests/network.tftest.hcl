mock_provider "aws" {
  mock_data "aws_availability_zones" {
    defaults = {
      names = ["eu-central-1a", "eu-central-1b", "eu-central-1c", "eu-central-1d"]
    }
  }
  mock_data "aws_region" {
    defaults = {
      region = "eu-central-1"
    }
  }
}

variables {
  name   = "demo-vpc"
  region = "eu-central-1"
}

# A mock gives every resource of a type the same id: these distinguish them where
# a type has one resource.
override_resource {
  target = aws_route_table.private
  values = { id = "rtb-private" }
}
override_resource {
  target = aws_route_table.public
  values = { id = "rtb-public" }
}
override_resource {
  target = aws_route_table.intra
  values = { id = "rtb-intra" }
}

run "no_ipv6_by_default" {
  command = plan

  assert {
    condition     = output.vpc_ipv6_cidr == null && length(aws_egress_only_internet_gateway.this) == 0 && length(aws_route.public_internet_ipv6) == 0 && length(aws_route.private_internet_ipv6) == 0
    error_message = "Nothing of IPv6 is created."
  }
}

run "ipv6" {
  command = plan

  variables {
    ipv6 = true
  }

  override_resource {
    target = aws_vpc.this
    values = { ipv6_cidr_block = "2600:1f14:abcd:ef00::/56" }
  }

  assert {
    condition     = aws_vpc.this.assign_generated_ipv6_cidr_block && output.vpc_ipv6_cidr == "2600:1f14:abcd:ef00::/56"
    error_message = "The VPC has a network of Amazon's."
  }
  assert {
    condition     = [for zone in local.azs : aws_subnet.private[zone].ipv6_cidr_block][0] == "2600:1f14:abcd:ef00::/64" && [for zone in local.azs : aws_subnet.public[zone].ipv6_cidr_block][0] == "2600:1f14:abcd:ef10::/64" && [for zone in local.azs : aws_subnet.intra[zone].ipv6_cidr_block][0] == "2600:1f14:abcd:ef20::/64"
    error_message = "Each subnet has a network of its own."
  }
  assert {
    condition     = alltrue([for s in merge(aws_subnet.private, aws_subnet.public, aws_subnet.intra) : s.assign_ipv6_address_on_creation])
    error_message = "What starts in a subnet has an IPv6 address."
  }
  assert {
    condition     = aws_route.public_internet_ipv6[0].gateway_id == aws_internet_gateway.this.id && alltrue([for r in aws_route.private_internet_ipv6 : r.egress_only_gateway_id == aws_egress_only_internet_gateway.this[0].id]) && length(aws_route.private_internet_ipv6) == length(local.azs)
    error_message = "Public subnets are reached over IPv6, private ones are not, and reach the internet."
  }
}

run "ipv6_without_internet" {
  command = plan

  variables {
    ipv6        = true
    nat_gateway = "None"
  }

  override_resource {
    target = aws_vpc.this
    values = { ipv6_cidr_block = "2600:1f14:abcd:ef00::/56" }
  }

  assert {
    condition     = length(aws_egress_only_internet_gateway.this) == 0 && length(aws_route.private_internet_ipv6) == 0
    error_message = "Private subnets do not reach the internet over IPv6 either."
  }
}

run "defaults" {
  command = plan

  assert {
    condition     = output.azs == tolist(["eu-central-1a", "eu-central-1b", "eu-central-1c"])
    error_message = "azs defaults to the first three zones."
  }
  assert {
    condition     = aws_vpc.this.cidr_block == "10.0.0.0/16" && aws_vpc.this.enable_dns_hostnames && aws_vpc.this.enable_dns_support
    error_message = "The VPC is 10.0.0.0/16 and resolves names."
  }
  assert {
    condition     = output.private_subnet_cidrs == ["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"]
    error_message = "Private subnets are a quarter of the VPC each."
  }
  assert {
    condition     = output.public_subnet_cidrs == ["10.0.192.0/22", "10.0.196.0/22", "10.0.200.0/22"]
    error_message = "Public subnets lie in the last quarter."
  }
  assert {
    condition     = output.intra_subnet_cidrs == ["10.0.208.0/24", "10.0.209.0/24", "10.0.210.0/24"]
    error_message = "Intra subnets lie behind the public ones."
  }
  assert {
    condition     = alltrue([for s in aws_subnet.public : s.map_public_ip_on_launch == false])
    error_message = "Nothing gets a public address by accident."
  }
  assert {
    condition     = toset(keys(aws_nat_gateway.this)) == toset(["eu-central-1a"]) && length(aws_eip.nat) == 1
    error_message = "There is one NAT gateway, in the first zone."
  }
  assert {
    condition     = local.nat_zone_of == { eu-central-1a = "eu-central-1a", eu-central-1b = "eu-central-1a", eu-central-1c = "eu-central-1a" } && length(aws_route.private_internet) == 3
    error_message = "All private subnets leave through the one NAT gateway."
  }
  assert {
    condition     = toset(keys(aws_vpc_endpoint.gateway)) == toset(["s3"]) && aws_vpc_endpoint.gateway["s3"].service_name == "com.amazonaws.eu-central-1.s3" && aws_vpc_endpoint.gateway["s3"].route_table_ids == toset(["rtb-private", "rtb-public", "rtb-intra"])
    error_message = "S3 is reached through a gateway endpoint from every subnet."
  }
  assert {
    condition     = length(aws_vpc_endpoint.interface) == 0 && length(aws_security_group.endpoints) == 0
    error_message = "Interface endpoints, which have a cost, are not created by default."
  }
  assert {
    condition     = aws_subnet.private["eu-central-1a"].tags["kubernetes.io/role/internal-elb"] == "1" && aws_subnet.public["eu-central-1a"].tags["kubernetes.io/role/elb"] == "1"
    error_message = "Load-balancer controllers find their subnets by tag."
  }
  assert {
    condition     = alltrue([for s in aws_subnet.private : !contains(keys(s.tags), "karpenter.sh/discovery")])
    error_message = "Without a cluster nothing is tagged for Karpenter."
  }
  assert {
    condition     = aws_vpc.this.region == "eu-central-1" && alltrue([for s in aws_subnet.private : s.region == "eu-central-1"])
    error_message = "The region reaches the resources."
  }
}

run "tags_for_a_cluster" {
  command = plan

  variables {
    cluster_name = "demo"
    tags         = { Team = "platform" }
  }

  assert {
    condition     = alltrue([for s in aws_subnet.private : s.tags["karpenter.sh/discovery"] == "demo" && s.tags["kubernetes.io/cluster/demo"] == "shared" && s.tags["Team"] == "platform"])
    error_message = "Private subnets have the tags that Karpenter selects."
  }
  assert {
    condition     = alltrue([for s in aws_subnet.public : s.tags["kubernetes.io/cluster/demo"] == "shared" && !contains(keys(s.tags), "karpenter.sh/discovery")])
    error_message = "Karpenter starts no nodes in public subnets."
  }
  assert {
    condition     = alltrue([for s in aws_subnet.intra : !contains(keys(s.tags), "karpenter.sh/discovery")])
    error_message = "Karpenter starts no nodes in intra subnets."
  }
  assert {
    condition     = aws_default_security_group.this.tags["Name"] == "demo-vpc-default-unused" && length(aws_default_security_group.this.ingress) == 0 && length(aws_default_security_group.this.egress) == 0
    error_message = "The default security group has no rules."
  }
}

run "a_nat_gateway_in_each_zone" {
  command = plan

  variables {
    azs         = ["eu-central-1b", "eu-central-1c"]
    cidr        = "10.8.0.0/20"
    nat_gateway = "PerZone"
  }

  assert {
    condition     = toset(keys(aws_nat_gateway.this)) == toset(["eu-central-1b", "eu-central-1c"])
    error_message = "Each zone has its NAT gateway."
  }
  assert {
    condition     = local.nat_zone_of == { eu-central-1b = "eu-central-1b", eu-central-1c = "eu-central-1c" } && toset(keys(aws_route.private_internet)) == toset(["eu-central-1b", "eu-central-1c"])
    error_message = "Each private subnet leaves through the NAT gateway of its zone."
  }
  assert {
    condition     = length(output.nat_public_ips) == 2 && output.azs == tolist(["eu-central-1b", "eu-central-1c"])
    error_message = "There are as many addresses as NAT gateways."
  }
  assert {
    condition     = output.private_subnet_cidrs == ["10.8.0.0/22", "10.8.4.0/22"] && output.public_subnet_cidrs == ["10.8.12.0/26", "10.8.12.64/26"] && output.intra_subnet_cidrs == ["10.8.13.0/28", "10.8.13.16/28"]
    error_message = "The smallest VPC still fits."
  }
  assert {
    condition     = length(data.aws_availability_zones.available) == 0
    error_message = "Given zones are not looked up."
  }
}

run "without_internet_access" {
  command = plan

  variables {
    nat_gateway = "None"
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_eip.nat) == 0 && length(aws_route.private_internet) == 0 && length(output.nat_public_ips) == 0
    error_message = "Private subnets have no route out."
  }
  assert {
    condition     = alltrue([for s in ["ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sqs", "ssm", "sts"] : aws_vpc_endpoint.interface[s].service_name == "com.amazonaws.eu-central-1.${s}"])
    error_message = "Nodes and Karpenter reach AWS through endpoints."
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.endpoints[0].cidr_ipv4 == "10.0.0.0/16" && aws_vpc_security_group_ingress_rule.endpoints[0].from_port == 443 && aws_vpc_security_group_ingress_rule.endpoints[0].to_port == 443
    error_message = "Only the VPC reaches the endpoints, and only with HTTPS."
  }
}

run "chosen_endpoints" {
  command = plan

  variables {
    gateway_endpoints   = []
    interface_endpoints = ["ecr.api"]
  }

  assert {
    condition     = length(aws_vpc_endpoint.gateway) == 0 && toset(keys(aws_vpc_endpoint.interface)) == toset(["ecr.api"]) && aws_vpc_endpoint.interface["ecr.api"].private_dns_enabled
    error_message = "Only the selected endpoints are created."
  }
  assert {
    condition     = join(",", local.endpoint_zones["ecr.api"]) == "eu-central-1a,eu-central-1b,eu-central-1c"
    error_message = "Without information about its zones, a service is in all of them."
  }
}

run "a_service_in_some_zones" {
  command = plan

  variables {
    interface_endpoints = ["ecr.api"]
  }

  override_data {
    target = data.aws_vpc_endpoint_service.interface
    values = { availability_zones = ["eu-central-1a", "eu-central-1c", "eu-central-1d"] }
  }

  assert {
    condition     = join(",", local.endpoint_zones["ecr.api"]) == "eu-central-1a,eu-central-1c"
    error_message = "An endpoint is in the zones that the service is offered in."
  }
}

# The lookup is in the provider's region.
run "another_region" {
  command = plan

  variables {
    region              = "eu-west-1"
    azs                 = ["eu-west-1a", "eu-west-1b"]
    interface_endpoints = ["ecr.api"]
  }

  assert {
    condition     = length(data.aws_vpc_endpoint_service.interface) == 0 && join(",", local.endpoint_zones["ecr.api"]) == "eu-west-1a,eu-west-1b" && aws_vpc_endpoint.interface["ecr.api"].service_name == "com.amazonaws.eu-west-1.ecr.api"
    error_message = "In another region than the provider's, endpoints are in all zones."
  }
}

data "aws_region" "current" {}

# Local Zones and Wavelength Zones require an opt-in and do not support an EKS
# control plane.
data "aws_availability_zones" "available" {
  count = var.azs == null ? 1 : 0

  region = var.region
  state  = "available"

  # EKS offers no control planes in these zones. A VPC that has one of them could not
  # get a cluster, so this changes the zones of no other VPC.
  exclude_zone_ids = ["cac1-az3", "use1-az3", "usw1-az2"]

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

locals {
  region = coalesce(var.region, data.aws_region.current.region)

  azs = var.azs != null ? var.azs : slice(data.aws_availability_zones.available[0].names, 0, min(3, length(data.aws_availability_zones.available[0].names)))

  # Zone => position. The position decides the networks of the zone.
  zones = { for i, zone in local.azs : zone => i }

  # Pods take their addresses from private subnets, so these get a quarter of the
  # VPC each. The last quarter holds four public networks (a 64th of the VPC) and,
  # behind them, the intra networks (a 256th), where the control plane may live.
  private_cidrs = { for zone, i in local.zones : zone => cidrsubnet(var.cidr, 2, i) }
  public_cidrs  = { for zone, i in local.zones : zone => cidrsubnet(var.cidr, 6, 48 + i) }
  intra_cidrs   = { for zone, i in local.zones : zone => cidrsubnet(var.cidr, 8, 208 + i) }

  # Each subnet has one of the 256 networks that a VPC has room for.
  ipv6_cidr          = var.ipv6 ? aws_vpc.this.ipv6_cidr_block : null
  private_ipv6_cidrs = { for zone, i in local.zones : zone => var.ipv6 ? cidrsubnet(local.ipv6_cidr, 8, i) : null }
  public_ipv6_cidrs  = { for zone, i in local.zones : zone => var.ipv6 ? cidrsubnet(local.ipv6_cidr, 8, 16 + i) : null }
  intra_ipv6_cidrs   = { for zone, i in local.zones : zone => var.ipv6 ? cidrsubnet(local.ipv6_cidr, 8, 32 + i) : null }

  nat_zones = {
    Single  = slice(local.azs, 0, 1)
    PerZone = local.azs
    None    = []
  }[var.nat_gateway]

  # Zone => zone of the NAT gateway that its private subnet leaves through.
  nat_zone_of = { for zone in local.azs : zone => var.nat_gateway == "PerZone" ? zone : local.azs[0] if var.nat_gateway != "None" }

  cluster_tags = var.cluster_name == null ? {} : {
    "kubernetes.io/cluster/${var.cluster_name}" = "shared"
  }
  discovery_tags = var.cluster_name == null ? {} : {
    "karpenter.sh/discovery" = var.cluster_name
  }
}

resource "aws_vpc" "this" {
  region = var.region

  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true

  assign_generated_ipv6_cidr_block = var.ipv6 ? true : null

  tags = merge(var.tags, local.cluster_tags, { Name = var.name })
}

# Removes the rules of the default group, which applies to everything without a group.
resource "aws_default_security_group" "this" {
  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-default-unused" })
}

resource "aws_subnet" "private" {
  for_each = local.zones

  region            = var.region
  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = local.private_cidrs[each.key]

  ipv6_cidr_block                 = local.private_ipv6_cidrs[each.key]
  assign_ipv6_address_on_creation = var.ipv6 ? true : null

  tags = merge(var.tags, local.cluster_tags, local.discovery_tags, {
    Name                              = "${var.name}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
  })
}

# Instances here get a public address only on request; load balancers
# and NAT gateways do.
resource "aws_subnet" "public" {
  for_each = local.zones

  region                  = var.region
  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = local.public_cidrs[each.key]
  map_public_ip_on_launch = false

  ipv6_cidr_block                 = local.public_ipv6_cidrs[each.key]
  assign_ipv6_address_on_creation = var.ipv6 ? true : null

  tags = merge(var.tags, local.cluster_tags, {
    Name                     = "${var.name}-public-${each.key}"
    "kubernetes.io/role/elb" = "1"
  })
}

# No route leaves the VPC from here.
resource "aws_subnet" "intra" {
  for_each = local.zones

  region            = var.region
  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = local.intra_cidrs[each.key]

  ipv6_cidr_block                 = local.intra_ipv6_cidrs[each.key]
  assign_ipv6_address_on_creation = var.ipv6 ? true : null

  tags = merge(var.tags, { Name = "${var.name}-intra-${each.key}" })
}

# A network without a cloud: the resources have identities and addresses, and
# nothing is created on the machine.

locals {
  tags = merge(
    var.tags,
    { Name = var.name },
    var.cluster_name == null ? {} : { "kubernetes.io/cluster/${var.cluster_name}" = "shared" },
  )

  nat_zones = {
    Single  = slice(var.azs, 0, 1)
    PerZone = var.azs
    None    = []
  }[var.nat_gateway]
}

resource "terraform_data" "vpc" {
  input = {
    cidr   = var.cidr
    region = var.region
    tags   = local.tags
  }

  # As with a real network, a change of the range replaces the network.
  triggers_replace = {
    cidr   = var.cidr
    region = var.region
  }
}

resource "terraform_data" "private_subnet" {
  for_each = { for index, az in var.azs : az => index }

  input = {
    cidr = cidrsubnet(var.cidr, 8, each.value)
    az   = each.key
    tags = merge(local.tags, { "kubernetes.io/role/internal-elb" = "1" })
  }

  triggers_replace = {
    vpc  = terraform_data.vpc.id
    cidr = cidrsubnet(var.cidr, 8, each.value)
  }
}

resource "terraform_data" "public_subnet" {
  for_each = { for index, az in var.azs : az => index }

  input = {
    cidr = cidrsubnet(var.cidr, 8, each.value + 100)
    az   = each.key
    tags = merge(local.tags, { "kubernetes.io/role/elb" = "1" })
  }

  triggers_replace = {
    vpc  = terraform_data.vpc.id
    cidr = cidrsubnet(var.cidr, 8, each.value + 100)
  }
}

resource "terraform_data" "nat_gateway" {
  for_each = toset(local.nat_zones)

  input = {
    subnet = terraform_data.public_subnet[each.key].id
    tags   = local.tags
  }
}

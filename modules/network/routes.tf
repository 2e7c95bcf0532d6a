resource "aws_internet_gateway" "this" {
  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = var.name })
}

resource "aws_eip" "nat" {
  for_each = toset(local.nat_zones)

  region = var.region
  domain = "vpc"

  tags = merge(var.tags, { Name = "${var.name}-nat-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_nat_gateway" "this" {
  for_each = toset(local.nat_zones)

  region        = var.region
  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id

  tags = merge(var.tags, { Name = "${var.name}-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route_table" "public" {
  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-public" })
}

resource "aws_route" "public_internet" {
  region                 = var.region
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route" "public_internet_ipv6" {
  count = var.ipv6 ? 1 : 0

  region                      = var.region
  route_table_id              = aws_route_table.public.id
  destination_ipv6_cidr_block = "::/0"
  gateway_id                  = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each = local.zones

  region         = var.region
  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public.id
}

# One for each zone, also with a single NAT gateway: a change from Single to PerZone
# then changes routes only.
resource "aws_route_table" "private" {
  for_each = local.zones

  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route" "private_internet" {
  for_each = local.nat_zone_of

  region                 = var.region
  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[each.value].id
}

# IPv6 has no address translation: this gateway lets connections out, and none in.
resource "aws_egress_only_internet_gateway" "this" {
  count = local.ipv6_egress ? 1 : 0

  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = var.name })
}

locals {
  ipv6_egress = var.ipv6 && var.nat_gateway != "None"
}

resource "aws_route" "private_internet_ipv6" {
  for_each = { for zone, i in local.zones : zone => i if local.ipv6_egress }

  region                      = var.region
  route_table_id              = aws_route_table.private[each.key].id
  destination_ipv6_cidr_block = "::/0"
  egress_only_gateway_id      = aws_egress_only_internet_gateway.this[0].id
}

resource "aws_route_table_association" "private" {
  for_each = local.zones

  region         = var.region
  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}

resource "aws_route_table" "intra" {
  region = var.region
  vpc_id = aws_vpc.this.id

  tags = merge(var.tags, { Name = "${var.name}-intra" })
}

resource "aws_route_table_association" "intra" {
  for_each = local.zones

  region         = var.region
  subnet_id      = aws_subnet.intra[each.key].id
  route_table_id = aws_route_table.intra.id
}

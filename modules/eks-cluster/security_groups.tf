# EKS creates one security group for the control plane's network interfaces and
# Fargate pods; nodes get this one. Karpenter finds it by its tag. It alone carries
# the cluster's tag among the groups of a node: load-balancer controllers require
# exactly one.
resource "aws_security_group" "node" {
  region = var.region

  name_prefix = "${var.cluster_name}-node-"
  description = "Nodes of the EKS cluster ${var.cluster_name}"
  vpc_id      = var.vpc_id
  # Controllers add rules that refer to groups of load balancers.
  revoke_rules_on_delete = true

  tags = merge(var.tags, {
    Name                                        = "${var.cluster_name}-node"
    "karpenter.sh/discovery"                    = var.cluster_name
    "kubernetes.io/cluster/${var.cluster_name}" = "owned"
  })

  lifecycle {
    create_before_destroy = true
  }
}

locals {
  cluster_security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id

  node_rules = merge({
    nodes = {
      description                  = "Pods and nodes among themselves"
      ip_protocol                  = "-1"
      from_port                    = null
      to_port                      = null
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = aws_security_group.node.id
    }
    cluster = {
      description                  = "Control plane to kubelets and webhooks, Fargate pods to pods"
      ip_protocol                  = "-1"
      from_port                    = null
      to_port                      = null
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = local.cluster_security_group_id
    }
  }, var.node_security_group_rules)

  cluster_rules = merge({
    nodes = {
      description                  = "Nodes and pods to pods on Fargate"
      ip_protocol                  = "-1"
      from_port                    = null
      to_port                      = null
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = aws_security_group.node.id
    }
    nodes_api = {
      description                  = "Nodes and pods to the API server"
      ip_protocol                  = "tcp"
      from_port                    = 443
      to_port                      = 443
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = aws_security_group.node.id
    }
    nodes_dns_tcp = {
      description                  = "Pods to CoreDNS on Fargate"
      ip_protocol                  = "tcp"
      from_port                    = 53
      to_port                      = 53
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = aws_security_group.node.id
    }
    nodes_dns_udp = {
      description                  = "Pods to CoreDNS on Fargate"
      ip_protocol                  = "udp"
      from_port                    = 53
      to_port                      = 53
      cidr_ipv4                    = null
      cidr_ipv6                    = null
      referenced_security_group_id = aws_security_group.node.id
    }
    }, {
    for cidr in var.private_access_cidrs : "private_access_${cidr}" => {
      description                  = "Private endpoint from ${cidr}"
      ip_protocol                  = "tcp"
      from_port                    = 443
      to_port                      = 443
      cidr_ipv4                    = strcontains(cidr, ":") ? null : cidr
      cidr_ipv6                    = strcontains(cidr, ":") ? cidr : null
      referenced_security_group_id = null
    }
  }, var.cluster_security_group_rules)
}

resource "aws_vpc_security_group_ingress_rule" "node" {
  for_each = local.node_rules

  region = var.region

  security_group_id            = aws_security_group.node.id
  description                  = each.value.description
  ip_protocol                  = each.value.ip_protocol
  from_port                    = each.value.from_port
  to_port                      = each.value.to_port
  cidr_ipv4                    = each.value.cidr_ipv4
  cidr_ipv6                    = each.value.cidr_ipv6
  referenced_security_group_id = each.value.referenced_security_group_id

  tags = merge(var.tags, { Name = each.key })
}

# Images come from anywhere.
resource "aws_vpc_security_group_egress_rule" "node" {
  region = var.region

  security_group_id = aws_security_group.node.id
  description       = "Everywhere"
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"

  tags = var.tags
}

resource "aws_vpc_security_group_egress_rule" "node_ipv6" {
  count = var.ip_family == "ipv6" ? 1 : 0

  region = var.region

  security_group_id = aws_security_group.node.id
  description       = "Everywhere"
  ip_protocol       = "-1"
  cidr_ipv6         = "::/0"

  tags = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "cluster" {
  for_each = local.cluster_rules

  region = var.region

  security_group_id            = local.cluster_security_group_id
  description                  = each.value.description
  ip_protocol                  = each.value.ip_protocol
  from_port                    = each.value.from_port
  to_port                      = each.value.to_port
  cidr_ipv4                    = each.value.cidr_ipv4
  cidr_ipv6                    = each.value.cidr_ipv6
  referenced_security_group_id = each.value.referenced_security_group_id

  tags = merge(var.tags, { Name = each.key })
}

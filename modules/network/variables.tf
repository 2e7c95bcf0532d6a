variable "name" {
  description = "Name of the VPC, and prefix of the names of its resources."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.name) >= 1 && length(var.name) <= 255
    error_message = "name must have between 1 and 255 characters, for example demo-vpc."
  }
}

variable "region" {
  description = "Region of the VPC. Defaults to the provider's region."
  type        = string
  default     = null

  validation {
    condition     = var.region == null || can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be the name of a region, for example eu-central-1."
  }
}

variable "cidr" {
  description = "IPv4 network of the VPC. Each zone gets a quarter of it for its private subnet; the last quarter holds the public and the intra subnets."
  type        = string
  default     = "10.0.0.0/16"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9.]+/(1[6-9]|20)$", var.cidr)) && try(cidrhost(var.cidr, 0) == split("/", var.cidr)[0], false)
    error_message = "cidr must be an IPv4 network between /16 and /20 that begins at its first address, for example 10.0.0.0/16: a smaller one leaves intra subnets below the /28 that a VPC allows."
  }
}

variable "ipv6" {
  description = "Whether the VPC and its subnets also have IPv6 networks, from Amazon's addresses, as clusters with ip_family = ipv6 need them. Private subnets reach the internet over IPv6 through an egress-only gateway, unless nat_gateway is None. A VPC without IPv6 gets it in place; do not remove it again."
  type        = bool
  default     = false
  nullable    = false
}

variable "azs" {
  description = "Zones of the subnets, two or three. Defaults to the first three of the region. Add a zone only at the end: its position decides its networks."
  type        = list(string)
  default     = null

  validation {
    condition     = var.azs == null || try(length(var.azs) >= 2 && length(var.azs) <= 3, false)
    error_message = "azs must name two or three zones, for example [\"eu-central-1a\", \"eu-central-1b\"]: EKS needs two."
  }

  validation {
    condition     = var.azs == null || try(length(distinct(var.azs)) == length(var.azs), false)
    error_message = "azs must name each zone once."
  }
}

variable "nat_gateway" {
  description = "How private subnets reach the internet: Single (one NAT gateway for all zones), PerZone (one in each zone) or None (not at all: AWS is reached through interface endpoints)."
  type        = string
  default     = "Single"
  nullable    = false

  validation {
    condition     = contains(["Single", "PerZone", "None"], var.nat_gateway)
    error_message = "nat_gateway must be Single, PerZone or None."
  }
}

variable "cluster_name" {
  description = "EKS cluster that uses the VPC. Its name is part of the tags with which Karpenter and load-balancer controllers select subnets. Null sets no such tags."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_name == null || can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must begin with a letter or digit and have at most 100 letters, digits, hyphens and underscores, for example demo."
  }
}

variable "gateway_endpoints" {
  description = "Services reached through gateway endpoints, which cost nothing."
  type        = set(string)
  default     = ["s3"]
  nullable    = false

  validation {
    condition     = alltrue([for s in var.gateway_endpoints : contains(["s3", "dynamodb"], s)])
    error_message = "gateway_endpoints may contain s3 and dynamodb; use interface_endpoints for other services."
  }
}

variable "interface_endpoints" {
  description = "Services reached through interface endpoints in the private subnets, by their short names (ecr.api, sts). Defaults to none with a NAT gateway, and otherwise to the services that EKS nodes and Karpenter need."
  type        = set(string)
  default     = null

  validation {
    condition     = var.interface_endpoints == null || try(alltrue([for s in var.interface_endpoints : can(regex("^[a-z0-9][a-z0-9.-]*$", s)) && !startswith(s, "com.")]), false)
    error_message = "interface_endpoints must contain short names of services: write ecr.api instead of com.amazonaws.eu-central-1.ecr.api."
  }
}

variable "tags" {
  description = "Tags of everything that the module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}

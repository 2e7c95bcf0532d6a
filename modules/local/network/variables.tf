variable "name" {
  description = "Name of the network."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][-_.A-Za-z0-9]{0,254}$", var.name))
    error_message = "The name must begin with a letter or digit and contain only letters, digits, dots, dashes and underscores, at most 255."
  }
}

variable "region" {
  description = "Region, which is only a name here."
  type        = string
  default     = "local"
}

variable "cidr" {
  description = "IPv4 range of the network."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrsubnet(var.cidr, 8, 255))
    error_message = "The range must be an IPv4 range with room for 256 subnets, such as 10.0.0.0/16."
  }
}

variable "azs" {
  description = "Availability zones; each gets a private and a public subnet."
  type        = list(string)
  default     = ["local-a", "local-b", "local-c"]

  validation {
    condition     = length(var.azs) > 0 && length(var.azs) <= 100 && length(distinct(var.azs)) == length(var.azs) && alltrue([for az in var.azs : can(regex("^[-a-z0-9]+$", az))])
    error_message = "Set between 1 and 100 different zones in lower-case letters, digits and dashes, such as [\"local-a\", \"local-b\"]."
  }
}

variable "nat_gateway" {
  description = "How private subnets reach the outside: Single, PerZone or None."
  type        = string
  default     = "Single"

  validation {
    condition     = contains(["Single", "PerZone", "None"], var.nat_gateway)
    error_message = "Write Single for one gateway, PerZone for one in each zone, or None."
  }
}

variable "tags" {
  description = "Tags of everything in the network."
  type        = map(string)
  default     = {}
}

variable "cluster_name" {
  description = "Cluster whose load balancers may use the subnets; null for none."
  type        = string
  default     = null
}

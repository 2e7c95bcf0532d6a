# EKS Auto Mode: EKS runs Karpenter, the load balancer controller, the EBS driver, CoreDNS,
# kube-proxy and the network of pods itself, on nodes that it creates.
variable "auto_mode" {
  description = <<-EOT
    EKS Auto Mode. node_pools are pools of EKS: general-purpose, system, both, or none if you create a NodeClass and NodePools yourself. node_role_arn is an existing role of the nodes; by default one is created (create_node_role, if it is known only after the apply).
    To disable it in a cluster that has it, set { enabled = false }: EKS terminates its nodes and deletes its load balancers. Null leaves it out.
  EOT
  type = object({
    enabled          = bool
    node_pools       = optional(set(string), ["general-purpose", "system"])
    node_role_arn    = optional(string)
    create_node_role = optional(bool)
  })
  default = null

  validation {
    condition     = var.auto_mode == null || length(setsubtract(try(var.auto_mode.node_pools, []), ["general-purpose", "system"])) == 0
    error_message = "node_pools of auto_mode must contain general-purpose, system or both, or be empty."
  }

  validation {
    condition     = try(var.auto_mode.node_role_arn, null) == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", var.auto_mode.node_role_arn))
    error_message = "node_role_arn of auto_mode must be the ARN of an IAM role, for example arn:aws:iam::123456789012:role/eks-auto-node."
  }
}

locals {
  auto_mode         = [for m in [var.auto_mode] : m if m != null]
  auto_mode_exists  = var.auto_mode != null
  auto_mode_enabled = try(var.auto_mode.enabled, false)
  auto_mode_pools   = local.auto_mode_enabled ? var.auto_mode.node_pools : toset([])

  # It stays while Auto Mode is being disabled, for the nodes that end.
  auto_mode_creates_role  = local.auto_mode_exists && coalesce(try(var.auto_mode.create_node_role, null), try(var.auto_mode.node_role_arn, null) == null)
  auto_mode_node_role_arn = local.auto_mode_creates_role ? aws_iam_role.auto_mode_node[0].arn : try(var.auto_mode.node_role_arn, null)
  auto_mode_role_name     = length("${local.role_base}-auto-node") <= 64 ? "${local.role_base}-auto-node" : "${substr(local.role_base, 0, 45)}-${substr(sha256(local.role_base), 0, 8)}-auto-node"

  managed_policy = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
}

# What Auto Mode does in the account, it does as the role of the control plane.
resource "aws_iam_role_policy_attachment" "auto_mode" {
  for_each = toset(local.auto_mode_exists && local.create_role ? ["AmazonEKSBlockStoragePolicy", "AmazonEKSComputePolicy", "AmazonEKSLoadBalancingPolicy", "AmazonEKSNetworkingPolicy"] : [])

  role       = aws_iam_role.cluster[0].name
  policy_arn = "${local.managed_policy}/${each.key}"
}

resource "aws_iam_role" "auto_mode_node" {
  count = local.auto_mode_creates_role ? 1 : 0

  name        = local.auto_mode_role_name
  description = "Nodes of EKS Auto Mode in the EKS cluster ${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EKSAutoModeNode"
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "auto_mode_node" {
  for_each = toset(local.auto_mode_creates_role ? ["AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodeMinimalPolicy"] : [])

  role       = aws_iam_role.auto_mode_node[0].name
  policy_arn = "${local.managed_policy}/${each.key}"
}

# EKS creates the access entry of the role of its own pools only.
resource "aws_eks_access_entry" "auto_mode_node" {
  count = local.auto_mode_enabled && length(local.auto_mode_pools) == 0 ? 1 : 0

  region = var.region

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = local.auto_mode_node_role_arn
  type          = "EC2"

  tags = var.tags
}

resource "aws_eks_access_policy_association" "auto_mode_node" {
  count = local.auto_mode_enabled && length(local.auto_mode_pools) == 0 ? 1 : 0

  region = var.region

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.auto_mode_node[0].principal_arn
  policy_arn    = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"

  access_scope {
    type = "cluster"
  }
}

output "auto_mode_node_role_arn" {
  description = "Role of the nodes of EKS Auto Mode, for spec.role of a NodeClass. Null without Auto Mode."
  value       = local.auto_mode_enabled ? local.auto_mode_node_role_arn : null
}

output "cluster_endpoint" {
  description = "URL of the API server."
  value       = try(trimspace(file("${local.files}/endpoint")), "")
}

output "cluster_name" {
  description = "Name of the cluster."
  value       = var.cluster_name
}

output "cluster_version" {
  description = "Minor version of Kubernetes."
  value       = local.version
}

output "cluster_certificate_authority_data" {
  description = "Certificate of the cluster's authority, in base64."
  value       = try(base64encode(file("${local.files}/ca.crt")), "")
}

output "kubeconfig" {
  description = "Kubeconfig of an administrator."
  value       = try(file("${local.files}/kubeconfig"), "")
  sensitive   = true
}

output "cluster_arn" {
  description = "Stand-in for the cluster's ARN."
  value       = "arn:aws:eks:${var.region}:000000000000:cluster/${var.cluster_name}"
}

output "oidc_provider_arn" {
  description = "Stand-in for the ARN of the cluster's identity provider."
  value       = "arn:aws:iam::000000000000:oidc-provider/local/${var.cluster_name}"
}

output "karpenter_iam_role_arn" {
  description = "Stand-in for the role of Karpenter's controller."
  value       = lookup(var.stand_ins, "karpenter_iam_role_arn", "arn:aws:iam::000000000000:role/KarpenterController-${var.cluster_name}")
}

output "karpenter_identity" {
  description = "Stand-in for how Karpenter's controller gets its role."
  value       = "IRSA"
}

output "karpenter_irsa_role_arn" {
  description = "Stand-in for the role of Karpenter's controller with IRSA."
  value       = lookup(var.stand_ins, "karpenter_iam_role_arn", "arn:aws:iam::000000000000:role/KarpenterController-${var.cluster_name}")
}

output "aws_load_balancer_controller_identity" {
  description = "Stand-in for how the AWS Load Balancer Controller gets its role."
  value       = "PodIdentity"
}

output "karpenter_queue_name" {
  description = "Stand-in for the queue of interruption notices."
  value       = lookup(var.stand_ins, "karpenter_queue_name", "Karpenter-${var.cluster_name}")
}

output "karpenter_node_role_name" {
  description = "Stand-in for the role of Karpenter's nodes."
  value       = lookup(var.stand_ins, "karpenter_node_role_name", "KarpenterNode-${var.cluster_name}")
}

output "region" {
  description = "Region of the cluster."
  value       = var.region
}

output "vpc_id" {
  description = "Network of the cluster. Null without one."
  value       = var.vpc_id
}

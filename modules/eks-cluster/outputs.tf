output "cluster_name" {
  description = "Name of the cluster. Known once the add-ons that nodes need are installed, so that nodes wait for them."
  value       = aws_eks_cluster.this.name
  depends_on = [
    aws_eks_access_policy_association.creator,
    aws_eks_addon.before_compute,
    aws_eks_pod_identity_association.addon,
    aws_iam_role_policy.addon,
    aws_vpc_security_group_ingress_rule.cluster,
    aws_vpc_security_group_ingress_rule.node,
  ]
}

output "cluster_arn" {
  description = "ARN of the cluster."
  value       = aws_eks_cluster.this.arn
}

output "cluster_endpoint" {
  description = "Address of the API server, with its scheme."
  value       = aws_eks_cluster.this.endpoint
}

output "cluster_version" {
  description = "Kubernetes version of the control plane."
  value       = aws_eks_cluster.this.version
}

output "cluster_platform_version" {
  description = "EKS platform version of the cluster."
  value       = aws_eks_cluster.this.platform_version
}

output "cluster_certificate_authority_data" {
  description = "Certificate authority of the API server, in base64."
  value       = aws_eks_cluster.this.certificate_authority[0].data
}

output "cluster_service_cidr" {
  description = "Network of the cluster's services."
  value       = var.ip_family == "ipv6" ? aws_eks_cluster.this.kubernetes_network_config[0].service_ipv6_cidr : aws_eks_cluster.this.kubernetes_network_config[0].service_ipv4_cidr
}

output "cluster_security_group_id" {
  description = "Security group that EKS created for the control plane and Fargate pods."
  value       = local.cluster_security_group_id
}

output "node_security_group_id" {
  description = "Security group of the nodes."
  value       = aws_security_group.node.id
}

output "cluster_iam_role_arn" {
  description = "Role of the control plane."
  value       = local.role_arn
}

output "kms_key_arn" {
  description = "KMS key that encrypts Kubernetes secrets."
  value       = local.kms_key_arn
}

output "oidc_provider_arn" {
  description = "ARN of the IAM OIDC provider of the cluster."
  value       = aws_iam_openid_connect_provider.this.arn
}

output "oidc_provider_url" {
  description = "Issuer of the cluster's service-account tokens, with its scheme."
  value       = aws_eks_cluster.this.identity[0].oidc[0].issuer
}

output "oidc_provider" {
  description = "Issuer of the cluster's service-account tokens without its scheme, as trust policies spell it."
  value       = replace(aws_eks_cluster.this.identity[0].oidc[0].issuer, "https://", "")
}

output "cluster_addons" {
  description = "Version of each add-on."
  value       = { for name, addon in merge(aws_eks_addon.before_compute, aws_eks_addon.this) : name => addon.addon_version }
}

output "addon_role_arns" {
  description = "ARNs of the roles of controllers in the cluster, by the name of the controller."
  value       = { for name, role in aws_iam_role.addon : name => role.arn }
  depends_on  = [aws_iam_role_policy.addon, aws_iam_role_policy_attachment.ebs_csi_driver, aws_eks_pod_identity_association.addon]
}

output "aws_load_balancer_controller_identity" {
  description = "How the AWS Load Balancer Controller gets its role: IRSA or PodIdentity. Null without a role."
  value       = var.aws_load_balancer_controller_role ? var.addon_identity : null
  depends_on  = [aws_iam_role_policy.addon, aws_eks_pod_identity_association.addon]
}

output "aws_load_balancer_controller_irsa_role_arn" {
  description = "ARN of the role of the AWS Load Balancer Controller with IRSA, for its service account's annotation eks.amazonaws.com/role-arn. Null with Pod Identity, which needs no annotation."
  value       = var.aws_load_balancer_controller_role && var.addon_identity == "IRSA" ? aws_iam_role.addon["aws_load_balancer_controller"].arn : null
}

output "log_group_name" {
  description = "CloudWatch log group of the control plane."
  value       = aws_cloudwatch_log_group.this.name
}

# The names that configurations written for several clusters use, with this cluster as main.

output "eks_clusters" {
  description = "The cluster by the key main: name, arn, endpoint, version and certificate_authority_data."
  value = {
    main = {
      name                       = aws_eks_cluster.this.name
      arn                        = aws_eks_cluster.this.arn
      endpoint                   = aws_eks_cluster.this.endpoint
      version                    = aws_eks_cluster.this.version
      certificate_authority_data = aws_eks_cluster.this.certificate_authority[0].data
    }
  }
  depends_on = [aws_eks_addon.before_compute, aws_vpc_security_group_ingress_rule.node, aws_vpc_security_group_ingress_rule.cluster]
}

output "eks_cluster_endpoint" {
  description = "Address of the API server, with its scheme, by the key main."
  value       = { main = aws_eks_cluster.this.endpoint }
}

output "eks_cluster_oidc_provider_arn" {
  description = "ARN of the IAM OIDC provider of the cluster, by the key main."
  value       = { main = aws_iam_openid_connect_provider.this.arn }
}

output "eks_cluster_oidc_issuer_url" {
  description = "Issuer of the cluster's service-account tokens, with its scheme, by the key main."
  value       = { main = aws_eks_cluster.this.identity[0].oidc[0].issuer }
}

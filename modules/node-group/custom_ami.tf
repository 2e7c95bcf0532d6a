# EKS adds the settings of the cluster to the user data of its own images only.
locals {
  custom_ami = var.ami_id != null

  node_config = {
    apiVersion = "node.eks.aws/v1alpha1"
    kind       = "NodeConfig"
    spec = {
      cluster = {
        name                 = var.cluster_name
        apiServerEndpoint    = var.cluster_endpoint
        certificateAuthority = var.cluster_certificate_authority_data
        cidr                 = var.cluster_service_cidr
      }
      kubelet = merge(
        length(var.labels) == 0 ? {} : { flags = ["--node-labels=${join(",", [for k, v in var.labels : "${k}=${v}"])}"] },
        length(var.taints) == 0 ? {} : { config = { registerWithTaints = [for t in var.taints : { for k, v in t : k => v if v != null }] } },
      )
    }
  }

  joining_user_data = join("\n", [
    "MIME-Version: 1.0",
    "Content-Type: multipart/mixed; boundary=\"//\"",
    "",
    "--//",
    "Content-Type: application/node.eks.aws",
    "",
    yamlencode(local.node_config),
    "--//--",
    "",
  ])

  user_data = var.user_data != null ? var.user_data : local.custom_ami ? local.joining_user_data : null
}

locals {
  node_config = {
    apiVersion = "node.eks.aws/v1alpha1"
    kind       = "NodeConfig"
    spec = {
      cluster = {
        name                 = var.cluster_name
        apiServerEndpoint    = local.endpoint
        certificateAuthority = local.certificate
        cidr                 = local.service_cidr
      }
      kubelet = merge(
        length(var.labels) == 0 ? {} : { flags = ["--node-labels=${join(",", [for k, v in var.labels : "${k}=${v}"])}"] },
        length(var.taints) == 0 ? {} : { config = { registerWithTaints = [for t in var.taints : { for k, v in t : k => v if v != null }] } },
      )
    }
  }

  # nodeadm, which sets up a node of Amazon Linux 2023, reads its part of a MIME
  # document.
  al2023_user_data = join("\n", [
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

  # TOML accepts the strings of JSON.
  bottlerocket_user_data = join("\n", concat(
    [
      "[settings.kubernetes]",
      "cluster-name = ${jsonencode(var.cluster_name)}",
      "api-server = ${jsonencode(local.endpoint)}",
      "cluster-certificate = ${jsonencode(local.certificate)}",
      "cluster-dns-ip = ${jsonencode(cidrhost(local.service_cidr, 10))}",
    ],
    length(var.labels) == 0 ? [] : concat(["", "[settings.kubernetes.node-labels]"], [for k, v in var.labels : "${jsonencode(k)} = ${jsonencode(v)}"]),
    length(var.taints) == 0 ? [] : concat(["", "[settings.kubernetes.node-taints]"], [
      for key in distinct([for t in var.taints : t.key]) : "${jsonencode(key)} = ${jsonencode([for t in var.taints : "${t.value == null ? "" : t.value}:${t.effect}" if t.key == key])}"
    ]),
    [""],
  ))

  user_data = local.bottlerocket ? local.bottlerocket_user_data : local.al2023_user_data
}

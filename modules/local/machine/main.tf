# One node of a local cluster: a Node object that KWOK simulates. The program
# localcluster does the work; this module calls it.

locals {
  provider_id = "local:///${var.availability_zone}/${var.name}"

  addresses = [
    { type = "InternalIP", address = cidrhost("10.0.0.0/8", parseint(substr(sha256("${var.cluster_name}/${var.name}"), 0, 6), 16)) },
    { type = "Hostname", address = var.name },
  ]

  node = jsonencode({
    name              = var.name
    providerID        = local.provider_id
    zone              = var.availability_zone
    instanceType      = var.instance_type
    kubernetesVersion = var.kubernetes_version
    labels            = var.labels
    taints            = var.taints
    tags              = var.tags
    addresses         = local.addresses
  })
}

# The machine. It is created before anything is called, and its creation cannot fail:
# the destroy provisioner of a resource whose creation failed does not run.
resource "terraform_data" "machine" {
  input = {
    program          = var.program
    name             = var.name
    provider_id      = local.provider_id
    cluster_endpoint = var.cluster_endpoint
  }

  # The kubeconfig is required to delete the node. It is a trigger and not an input,
  # because plans show the output of an input even if it is sensitive. Another
  # kubeconfig means another cluster.
  triggers_replace = {
    name              = var.name
    availability_zone = var.availability_zone
    cluster_name      = var.cluster_name
    kubeconfig        = var.kubeconfig
  }

  provisioner "local-exec" {
    when        = destroy
    interpreter = [self.input.program, "node"]
    command     = "delete"
    environment = {
      LOCALCLUSTER_KUBECONFIG = self.triggers_replace.kubeconfig
      LOCALCLUSTER_NODE       = jsonencode({ name = self.input.name, providerID = self.input.provider_id })
    }
  }
}

# The Node object. A replacement of this resource changes the node in place.
resource "terraform_data" "node" {
  triggers_replace = {
    machine = terraform_data.machine.id
    node    = local.node
  }

  provisioner "local-exec" {
    interpreter = [var.program, "node"]
    command     = "apply"
    environment = {
      LOCALCLUSTER_KUBECONFIG = var.kubeconfig
      LOCALCLUSTER_NODE       = local.node
    }
  }

  lifecycle {
    precondition {
      condition     = can(yamldecode(var.kubeconfig).clusters[0].cluster.server)
      error_message = "The variable kubeconfig is not a kubeconfig: set it to the output kubeconfig of the cluster."
    }
  }
}

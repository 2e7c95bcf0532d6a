# A group of identical nodes of a local cluster: Node objects that KWOK simulates. The
# program localcluster does the work; this module calls it.

locals {
  desired_size = var.desired_size == null ? var.min_size : var.desired_size

  node_names = [for index in range(local.desired_size) : "${var.name}-${index}"]

  zones = { for index, name in local.node_names : name => element(var.availability_zones, index) }

  provider_ids = { for name, zone in local.zones : name => "local:///${zone}/${name}" }

  nodes = {
    for index, name in local.node_names : name => jsonencode({
      name              = name
      providerID        = local.provider_ids[name]
      zone              = local.zones[name]
      instanceType      = element(var.instance_types, index)
      capacityType      = var.capacity_type
      kubernetesVersion = var.kubernetes_version
      labels            = merge({ "eks.amazonaws.com/nodegroup" = var.name }, var.labels)
      taints            = var.taints
      tags              = var.tags
      addresses = [
        { type = "InternalIP", address = cidrhost("10.0.0.0/8", parseint(substr(sha256("${var.cluster_name}/${name}"), 0, 6), 16)) },
        { type = "Hostname", address = name },
      ]
    })
  }
}

resource "terraform_data" "node_group" {
  input = {
    cluster_endpoint = var.cluster_endpoint
    min_size         = var.min_size
    max_size         = var.max_size
    desired_size     = local.desired_size
    instance_types   = var.instance_types
    capacity_type    = var.capacity_type
    ami_type         = var.ami_type
    disk_size        = var.disk_size
    update_config    = var.update_config
  }

  triggers_replace = {
    name         = var.name
    cluster_name = var.cluster_name
  }

  lifecycle {
    precondition {
      condition     = var.min_size <= local.desired_size && local.desired_size <= var.max_size
      error_message = "desired_size must be between min_size and max_size: change one of the three."
    }

    precondition {
      condition     = can(yamldecode(var.kubeconfig).clusters[0].cluster.server)
      error_message = "The variable kubeconfig is not a kubeconfig: set it to the output kubeconfig of the cluster."
    }
  }
}

# The machines. They are created before anything is called, and their creation cannot
# fail: the destroy provisioner of a resource whose creation failed does not run.
resource "terraform_data" "machine" {
  for_each = local.provider_ids

  input = {
    program     = var.program
    name        = each.key
    provider_id = each.value
  }

  # The kubeconfig is required to delete a node. It is a trigger and not an input,
  # because plans show the output of an input even if it is sensitive. Another
  # kubeconfig means another cluster.
  triggers_replace = {
    node_group        = terraform_data.node_group.id
    availability_zone = local.zones[each.key]
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

# The Node objects. A replacement of one of these resources changes its node in place.
resource "terraform_data" "node" {
  for_each = local.nodes

  triggers_replace = {
    machine = terraform_data.machine[each.key].id
    node    = each.value
  }

  provisioner "local-exec" {
    interpreter = [var.program, "node"]
    command     = "apply"
    environment = {
      LOCALCLUSTER_KUBECONFIG = var.kubeconfig
      LOCALCLUSTER_NODE       = each.value
    }
  }
}

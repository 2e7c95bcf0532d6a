# A Kubernetes control plane out of processes of this machine. The program
# localcluster does the work; here is only when it is called.

locals {
  version = join(".", regex("^v?([0-9]+)\\.([0-9]+)", var.kubernetes_version))

  directory = terraform_data.directory.output

  # A link in the directory leads to the command line of the process that keeps
  # the control plane alive, so this is false when the directory vanished, the
  # machine was restarted or the process was killed.
  alive = try(strcontains(file("${local.directory}/supervisor"), local.directory), false)

  # The control plane carries a text that is chosen when it is started. While it
  # lives, the text is read back and nothing changes; when it is gone, a new
  # text has it started again.
  incarnation = local.alive ? try(file("${local.directory}/incarnation"), plantimestamp()) : plantimestamp()

  # Files of a living control plane do not change, so their content is known
  # before an upgrade; otherwise it is known after the start.
  files = local.alive ? local.directory : terraform_data.version.output
}

# The directory is chosen once. It does not depend on an identity that would be
# lost with an apply that is killed: the next apply finds what that one left.
resource "terraform_data" "directory" {
  input = coalesce(var.directory, "${var.parent_directory}/capt-local-${var.cluster_name}-${substr(sha256("${path.cwd}\n${terraform.workspace}"), 0, 10)}")

  triggers_replace = {
    cluster_name = var.cluster_name
    directory    = var.directory
  }

  lifecycle {
    ignore_changes = [input]
  }
}

# The cluster. It is made before anything runs, and nothing can fail here: a
# resource whose creation failed would not be asked to clean up.
resource "terraform_data" "cluster" {
  input = {
    directory                    = local.directory
    program                      = var.program
    region                       = var.region
    vpc_id                       = var.vpc_id
    subnet_ids                   = var.subnet_ids
    tags                         = var.tags
    endpoint_public_access       = var.endpoint_public_access
    endpoint_private_access      = var.endpoint_private_access
    endpoint_public_access_cidrs = var.endpoint_public_access_cidrs
    cluster_addons               = var.cluster_addons
  }

  triggers_replace = {
    directory = terraform_data.directory.id
  }

  provisioner "local-exec" {
    when        = destroy
    interpreter = [self.input.program, "down", "--dir"]
    command     = self.input.directory
  }
}

# What runs of it. Replacing this starts or upgrades the control plane in place;
# data, address and certificates stay.
resource "terraform_data" "version" {
  input = local.directory

  triggers_replace = {
    cluster     = terraform_data.cluster.id
    version     = local.version
    with        = sort(var.with)
    incarnation = local.incarnation
  }

  provisioner "local-exec" {
    interpreter = [
      var.program, "up",
      "--dir", local.directory,
      "--name", var.cluster_name,
      "--kubernetes-version", local.version,
      "--with", join(",", sort(var.with)),
      "--incarnation",
    ]
    command = local.incarnation
  }
}

# A Kubernetes control plane that runs as processes on this machine. The program
# localcluster does the work; this module calls it.

locals {
  version = join(".", regex("^v?([0-9]+)\\.([0-9]+)", var.kubernetes_version))

  directory = terraform_data.directory.output

  # A link in the directory points to the command line of the process that supervises
  # the control plane, so this is false if the directory was removed, the machine was
  # restarted or the process was killed.
  alive = try(strcontains(file("${local.directory}/supervisor"), local.directory), false)

  # Each start of the control plane has an ID. While it runs, the ID is read back and
  # nothing changes; if it does not run, a new ID makes Terraform start it again.
  incarnation = local.alive ? try(file("${local.directory}/incarnation"), plantimestamp()) : plantimestamp()

  # Files of a running control plane do not change, so their content is known before
  # an upgrade; otherwise it is known after the start.
  files = local.alive ? local.directory : terraform_data.version.output
}

# The directory is set once. It does not depend on an ID that would be lost with an
# apply that is killed, so the next apply finds the files of the killed one.
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

# The cluster. It is created before anything runs, and its creation cannot fail: the
# destroy provisioner of a resource whose creation failed does not run.
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

# The processes. A replacement of this resource starts or upgrades the control plane in
# place; data, address and certificates stay.
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

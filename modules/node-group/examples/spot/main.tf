# Spot nodes of several instance types, for pods that tolerate them.

terraform {
  required_version = ">= 1.8.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.9, < 7.0"
    }
  }
}

provider "aws" {
  region = "eu-central-1"
}

variable "subnet_ids" {
  type = list(string)
}


module "workers" {
  source = "../.."

  name               = "spot"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  subnet_ids         = var.subnet_ids

  capacity_type  = "Spot"
  instance_types = ["m6i.xlarge", "m6a.xlarge", "m5.xlarge", "m5a.xlarge", "m5n.xlarge"]
  min_size       = 0
  max_size       = 10
  desired_size   = 2

  labels = { tier = "batch" }
  taints = [{ key = "spot", value = "true", effect = "NoSchedule" }]
}

output "provider_id_list" {
  value = module.workers.provider_id_list
}

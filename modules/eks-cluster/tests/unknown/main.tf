# Modules with roles, profiles and keys that the plan does not know yet.
resource "terraform_data" "name" {}

locals {
  role_arn = "arn:aws:iam::123456789012:role/${terraform_data.name.id}"
}

module "cluster" {
  source = "../.."

  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-a", "subnet-b"]

  iam_role_arn    = local.role_arn
  create_iam_role = false
  kms_key_arn     = "arn:aws:kms:eu-central-1:123456789012:key/${terraform_data.name.id}"
  create_kms_key  = false
  auto_mode       = { enabled = true, node_role_arn = local.role_arn, create_node_role = false }
}

module "node_group" {
  source = "../../../node-group"

  name               = "system"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  subnet_ids         = ["subnet-a", "subnet-b"]
  security_group_ids = ["sg-nodes"]
  node_role_arn      = local.role_arn
  create_node_role   = false
}

module "fargate_profile" {
  source = "../../../fargate-profile"

  name                      = "apps"
  cluster_name              = "demo"
  region                    = "eu-central-1"
  subnet_ids                = ["subnet-a", "subnet-b"]
  selectors                 = [{ namespace = "apps" }]
  pod_execution_role_arn    = local.role_arn
  create_pod_execution_role = false
}

module "machine" {
  source = "../../../machine"

  name               = "one"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  subnet_ids         = ["subnet-a"]
  security_group_ids = ["sg-nodes"]
  instance_type      = "m6i.large"

  cluster_endpoint                   = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  cluster_certificate_authority_data = "Q0E="
  cluster_service_cidr               = "172.20.0.0/16"

  instance_profile_name   = terraform_data.name.id
  create_instance_profile = false
}

output "names" {
  description = "Names of what is planned."
  value       = [module.cluster.cluster_name, module.fargate_profile.fargate_profile_name]
}

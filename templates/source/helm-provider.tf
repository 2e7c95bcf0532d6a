# Terraform reads the release of modules/eks-v1 before migration.tf removes it from the state.
# Only a root module can configure a provider. Without an earlier v1, no resource needs it, and
# it is not started.
data "aws_eks_cluster_auth" "this" {
  region = var.region
  name   = basename(module.cluster.cluster_arn)
}

provider "helm" {
  kubernetes = {
    host                   = module.cluster.cluster_endpoint
    cluster_ca_certificate = base64decode(module.cluster.cluster_certificate_authority_data)
    token                  = data.aws_eks_cluster_auth.this.token
  }
}

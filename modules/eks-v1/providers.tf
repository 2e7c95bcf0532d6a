# A token is valid for 15 minutes. It depends on the cluster's ARN, which is known only
# once a new cluster exists, so it is created after the long wait for the cluster and
# not in the plan. Each later plan creates one.
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

# A token lasts 15 minutes. Taken by the cluster's ARN, which a new cluster has only
# once it is there, it is not made in the plan but after the long wait for the
# cluster. Later plans make one each.
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

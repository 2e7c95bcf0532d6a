# From modules/eks-v1, where Terraform installed Karpenter's chart. The release is
# removed from the state and keeps running, for Flux to adopt; the IAM resources of
# modules/Karpenter move to this module. Nothing is destroyed. Without an earlier v1,
# no block does anything.

removed {
  from = module.karpenter.helm_release.karpenter

  lifecycle {
    destroy = false
  }
}

moved {
  from = module.karpenter.module.iam
  to   = module.karpenter_iam[0]
}

# From modules/eks-v1, where Terraform installed Karpenter's chart. The release is
# forgotten and keeps running, for Flux to adopt; the IAM side of modules/Karpenter
# becomes ours. Nothing is destroyed. Where there was no v1, neither block does
# anything.

removed {
  from = module.karpenter.helm_release.karpenter

  lifecycle {
    destroy = false
  }
}

moved {
  from = module.karpenter.module.iam
  to   = module.karpenter_iam
}

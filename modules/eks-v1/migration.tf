# Back from modules/eks, whose IAM side has another address. Where there was none,
# this does nothing. The release is taken over as it runs: see modules/Karpenter.

moved {
  from = module.karpenter_iam[0]
  to   = module.karpenter.module.iam
}

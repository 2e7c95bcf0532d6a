# The role of CAPT in a management cluster on EKS. Roles that CAPT creates have a boundary.

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

module "capt" {
  source = "../.."

  oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  service_accounts = [
    { namespace = "capt-system", name = "capt-controller-manager" },
    # If clusterctl has installed CAPT, this manager signs the tokens.
    { namespace = "capt-control-plane-system", name = "capt-control-plane-controller-manager" },
    { namespace = "team-a", name = "capt-runner" },
  ]

  regions                  = ["eu-central-1"]
  permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
}

output "role_arn" {
  value = module.capt.role_arn
}

module github.com/appthrust/capt/dev/bin/provider-aws

go 1.26.3

require github.com/hashicorp/terraform-provider-aws v1.60.1-0.20260602190131-5f2286d6d836

# EC2 Spot needs one service-linked role in the account, which everything that uses
# Spot there shares: it is created if it is missing, and never destroyed.

data "aws_iam_roles" "spot" {
  name_regex  = "^AWSServiceRoleForEC2Spot$"
  path_prefix = "/aws-service-role/spot.amazonaws.com/"
}

# An existing role is imported instead of created again, which AWS
# would reject. With count, the next plan would destroy it, because the lookup then
# finds it.
import {
  for_each = data.aws_iam_roles.spot.arns

  to = aws_iam_service_linked_role.spot
  id = each.value
}

resource "aws_iam_service_linked_role" "spot" {
  aws_service_name = "spot.amazonaws.com"
  description      = "Allows EC2 Spot to launch and manage Spot instances"

  tags = var.tags

  lifecycle {
    # Other clusters of the account use it.
    prevent_destroy = true
    # Tags and descriptions that others set are kept.
    ignore_changes = [description, tags, tags_all]
  }
}

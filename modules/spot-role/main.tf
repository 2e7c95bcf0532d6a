# EC2 Spot needs one service-linked role in the account, and so does everything in
# it that uses Spot: it is created where it is missing and never destroyed.

data "aws_iam_roles" "spot" {
  name_regex  = "^AWSServiceRoleForEC2Spot$"
  path_prefix = "/aws-service-role/spot.amazonaws.com/"
}

# An existing role is imported instead of created again, which AWS
# would refuse. Creating it by count would plan to destroy it the next time, when
# the lookup finds it.
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
    # Other clusters of the account live off it.
    prevent_destroy = true
    # What others wrote on it is theirs.
    ignore_changes = [description, tags, tags_all]
  }
}

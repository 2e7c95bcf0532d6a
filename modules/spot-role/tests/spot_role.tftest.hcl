mock_provider "aws" {
  mock_data "aws_iam_roles" {
    defaults = { arns = [] }
  }
  mock_resource "aws_iam_service_linked_role" {
    defaults = {
      arn  = "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
      name = "AWSServiceRoleForEC2Spot"
    }
  }
}

run "created_where_it_is_missing" {
  command = plan

  assert {
    condition     = aws_iam_service_linked_role.spot.aws_service_name == "spot.amazonaws.com"
    error_message = "The role is created."
  }
  assert {
    condition     = output.role_arn == "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot" && output.role_name == "AWSServiceRoleForEC2Spot"
    error_message = "The outputs name the role."
  }
  assert {
    condition     = data.aws_iam_roles.spot.name_regex == "^AWSServiceRoleForEC2Spot$" && data.aws_iam_roles.spot.path_prefix == "/aws-service-role/spot.amazonaws.com/"
    error_message = "The lookup selects exactly this role."
  }
}

mock_provider "aws" {}

variables {
  name = "demo-vpc"
  azs  = ["eu-central-1a", "eu-central-1b"]
}

run "an_empty_name" {
  command = plan
  variables {
    name = ""
  }
  # Says: name must have between 1 and 255 characters
  expect_failures = [var.name]
}

run "a_zone_for_a_region" {
  command = plan
  variables {
    region = "eu-central-1a"
  }
  # Says: region must be the name of a region, for example eu-central-1
  expect_failures = [var.region]
}

run "a_network_too_small" {
  command = plan
  variables {
    cidr = "10.0.0.0/21"
  }
  # Says: cidr must be an IPv4 network between /16 and /20
  expect_failures = [var.cidr]
}

run "a_network_that_begins_in_the_middle" {
  command = plan
  variables {
    cidr = "10.0.0.1/16"
  }
  # Says: that begins at its first address
  expect_failures = [var.cidr]
}

run "no_network_at_all" {
  command = plan
  variables {
    cidr = "10.0.0.300/16"
  }
  # Says: cidr must be an IPv4 network between /16 and /20
  expect_failures = [var.cidr]
}

run "one_zone" {
  command = plan
  variables {
    azs = ["eu-central-1a"]
  }
  # Says: azs must name two or three zones
  expect_failures = [var.azs]
}

run "a_zone_twice" {
  command = plan
  variables {
    azs = ["eu-central-1a", "eu-central-1a"]
  }
  # Says: azs must name each zone once
  expect_failures = [var.azs]
}

run "an_unknown_kind_of_nat_gateway" {
  command = plan
  variables {
    nat_gateway = "single"
  }
  # Says: nat_gateway must be Single, PerZone or None
  expect_failures = [var.nat_gateway]
}

run "a_cluster_name_with_a_dot" {
  command = plan
  variables {
    cluster_name = "demo.eu"
  }
  # Says: cluster_name must begin with a letter or digit
  expect_failures = [var.cluster_name]
}

run "a_gateway_endpoint_that_does_not_exist" {
  command = plan
  variables {
    gateway_endpoints = ["sqs"]
  }
  # Says: use interface_endpoints for other services
  expect_failures = [var.gateway_endpoints]
}

run "a_full_service_name" {
  command = plan
  variables {
    interface_endpoints = ["com.amazonaws.eu-central-1.sts"]
  }
  # Says: write ecr.api instead of com.amazonaws.eu-central-1.ecr.api
  expect_failures = [var.interface_endpoints]
}

run "a_service_in_none_of_the_zones" {
  command = plan
  variables {
    interface_endpoints = ["sts"]
  }
  override_data {
    target = data.aws_vpc_endpoint_service.interface
    values = { availability_zones = ["eu-central-1c"] }
  }
  # Says: A service of interface_endpoints is not offered in any zone of azs
  expect_failures = [aws_vpc_endpoint.interface]
}

run "interface_endpoints_in_china" {
  command = plan
  variables {
    region              = "cn-north-1"
    azs                 = ["cn-north-1a", "cn-north-1b"]
    interface_endpoints = ["sts"]
  }
  # Says: In the regions of China, the names of interface endpoints differ from service to service
  expect_failures = [aws_vpc_endpoint.interface]
}

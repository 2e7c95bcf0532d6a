mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_subnet" {
    defaults = { availability_zone = "eu-central-1a" }
  }
  mock_data "aws_ec2_instance_type" {
    defaults = { supported_architectures = ["x86_64"] }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "ami-0123456789abcdef0" }
  }
  mock_data "aws_eks_cluster" {
    defaults = {
      endpoint                  = "https://LOOKED.UP"
      certificate_authority     = [{ data = "TE9PS0VE" }]
      kubernetes_network_config = [{ service_ipv4_cidr = "10.100.0.0/16", service_ipv6_cidr = "", ip_family = "ipv4", elastic_load_balancing = [] }]
      vpc_config = [{
        cluster_security_group_id = "sg-cluster", security_group_ids = [], subnet_ids = [], vpc_id = "vpc-1"
        endpoint_private_access   = true, endpoint_public_access = false, public_access_cidrs = []
      }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-node-1-machine" }
  }
  mock_resource "aws_instance" {
    defaults = {
      id                = "i-0aaaaaaaaaaaaaaaa"
      availability_zone = "eu-central-1a"
      private_dns       = "ip-10-0-1-2.eu-central-1.compute.internal"
      private_ip        = "10.0.1.2"
    }
  }
}

variables {
  name                               = "node-1"
  cluster_name                       = "demo"
  cluster_endpoint                   = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  cluster_certificate_authority_data = "Q0E="
  cluster_service_cidr               = "172.20.0.0/16"
  kubernetes_version                 = "1.33"
  region                             = "eu-central-1"
  subnet_ids                         = ["subnet-a", "subnet-b"]
  security_group_ids                 = ["sg-nodes"]
}

run "amazon_linux" {
  command = plan

  variables {
    labels = { tier = "batch", zone = "x" }
    taints = [{ key = "dedicated", value = "batch", effect = "NoSchedule" }, { key = "slow", effect = "PreferNoSchedule" }]
    tags   = { Team = "platform" }
  }

  assert {
    condition     = aws_instance.this.metadata_options[0].http_tokens == "required" && aws_instance.this.metadata_options[0].http_put_response_hop_limit == 1
    error_message = "IMDSv2 is required and pods do not reach it."
  }
  assert {
    condition     = aws_instance.this.root_block_device[0].encrypted && aws_instance.this.root_block_device[0].volume_size == 50 && aws_instance.this.root_block_device[0].volume_type == "gp3"
    error_message = "The disk is encrypted, and has the desired size."
  }
  assert {
    condition     = data.aws_ssm_parameter.ami[0].name == "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id" && aws_instance.this.ami == "ami-0123456789abcdef0"
    error_message = "The image is EKS's for the version and the architecture."
  }
  assert {
    condition     = startswith(base64decode(aws_instance.this.user_data_base64), "MIME-Version: 1.0\n") && strcontains(base64decode(aws_instance.this.user_data_base64), "Content-Type: application/node.eks.aws\n\n") && endswith(base64decode(aws_instance.this.user_data_base64), "--//--\n")
    error_message = "nodeadm finds its part of the user data."
  }
  assert {
    condition = yamldecode(split("--//--", split("application/node.eks.aws\n\n", base64decode(aws_instance.this.user_data_base64))[1])[0]) == {
      apiVersion = "node.eks.aws/v1alpha1"
      kind       = "NodeConfig"
      spec = {
        cluster = {
          name                 = "demo"
          apiServerEndpoint    = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
          certificateAuthority = "Q0E="
          cidr                 = "172.20.0.0/16"
        }
        kubelet = {
          flags  = ["--node-labels=tier=batch,zone=x"]
          config = { registerWithTaints = [{ key = "dedicated", value = "batch", effect = "NoSchedule" }, { key = "slow", effect = "PreferNoSchedule" }] }
        }
      }
    }
    error_message = "The node knows its cluster, labels and taints."
  }
  assert {
    condition     = length(data.aws_eks_cluster.this) == 0 && aws_instance.this.vpc_security_group_ids == toset(["sg-nodes"])
    error_message = "Given inputs are not looked up."
  }
  assert {
    condition     = aws_instance.this.tags == tomap({ Name = "node-1", Team = "platform", "kubernetes.io/cluster/demo" = "owned" })
    error_message = "The instance has the tags of its name and its cluster."
  }
  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[*].Principal.Service == ["ec2.amazonaws.com"] && toset(keys(aws_iam_role_policy_attachment.node)) == toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore"])
    error_message = "The role is a node's."
  }
  assert {
    condition     = aws_eks_access_entry.node[0].type == "EC2_LINUX" && aws_eks_access_entry.node[0].principal_arn == "arn:aws:iam::123456789012:role/demo-node-1-machine"
    error_message = "The node may join."
  }
  assert {
    condition     = output.provider_id == "aws:///eu-central-1a/i-0aaaaaaaaaaaaaaaa" && output.node_name == "ip-10-0-1-2.eu-central-1.compute.internal" && output.instance_id == "i-0aaaaaaaaaaaaaaaa" && output.availability_zone == "eu-central-1a"
    error_message = "The outputs describe the node."
  }
  assert {
    condition     = [for a in output.addresses : "${a.type}=${a.address}"] == ["InternalIP=10.0.1.2", "InternalDNS=ip-10-0-1-2.eu-central-1.compute.internal"]
    error_message = "The addresses are those of Cluster API."
  }
  assert {
    condition     = length(aws_instance.this.instance_market_options) == 0
    error_message = "Nodes are on-demand."
  }
}

run "bottlerocket_on_arm" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["arm64"] }
  }

  variables {
    os                    = "Bottlerocket"
    instance_type         = "m7g.large"
    capacity_type         = "Spot"
    disk_size             = 100
    instance_profile_name = "KarpenterNode-demo"
    labels                = { tier = "ba\"tch" }
    taints                = [{ key = "a", value = "b", effect = "NoSchedule" }, { key = "a", effect = "NoExecute" }]
  }

  assert {
    condition     = data.aws_ssm_parameter.ami[0].name == "/aws/service/bottlerocket/aws-k8s-1.33/arm64/latest/image_id"
    error_message = "The image is Bottlerocket's for the architecture."
  }
  assert {
    condition = base64decode(aws_instance.this.user_data_base64) == join("\n", [
      "[settings.kubernetes]",
      "cluster-name = \"demo\"",
      "api-server = \"https://ABCD.gr7.eu-central-1.eks.amazonaws.com\"",
      "cluster-certificate = \"Q0E=\"",
      "cluster-dns-ip = \"172.20.0.10\"",
      "",
      "[settings.kubernetes.node-labels]",
      "\"tier\" = \"ba\\\"tch\"",
      "",
      "[settings.kubernetes.node-taints]",
      "\"a\" = [\"b:NoSchedule\",\":NoExecute\"]",
      "",
    ])
    error_message = "The settings are Bottlerocket's, with quotes escaped."
  }
  assert {
    condition     = one(aws_instance.this.ebs_block_device).device_name == "/dev/xvdb" && one(aws_instance.this.ebs_block_device).volume_size == 100 && one(aws_instance.this.ebs_block_device).encrypted
    error_message = "The second disk has the desired size."
  }
  assert {
    condition     = aws_instance.this.instance_market_options[0].market_type == "spot" && aws_instance.this.instance_market_options[0].spot_options[0].instance_interruption_behavior == "terminate"
    error_message = "The node is a spot instance."
  }
  assert {
    condition     = aws_instance.this.iam_instance_profile == "KarpenterNode-demo" && length(aws_iam_role.node) == 0 && length(aws_eks_access_entry.node) == 0
    error_message = "A given instance profile is used."
  }
}

run "lookup_of_inputs_that_are_not_set" {
  command = plan

  variables {
    cluster_endpoint                   = null
    cluster_certificate_authority_data = null
    cluster_service_cidr               = null
    security_group_ids                 = []
    ami_id                             = "ami-0fedcba9876543210"
  }

  assert {
    condition     = local.endpoint == "https://LOOKED.UP" && local.certificate == "TE9PS0VE" && local.service_cidr == "10.100.0.0/16" && aws_instance.this.vpc_security_group_ids == toset(["sg-cluster"])
    error_message = "Inputs that are not set are read from EKS."
  }
  assert {
    condition     = aws_instance.this.ami == "ami-0fedcba9876543210" && length(data.aws_ssm_parameter.ami) == 0
    error_message = "A given image is used."
  }
  assert {
    condition     = yamldecode(split("--//--", split("application/node.eks.aws\n\n", base64decode(aws_instance.this.user_data_base64))[1])[0]).spec.kubelet == {}
    error_message = "Without labels and taints the kubelet has its defaults."
  }
}

run "a_zone" {
  command = plan

  variables {
    availability_zone = "eu-central-1a"
  }

  assert {
    condition     = contains(["subnet-a", "subnet-b"], aws_instance.this.subnet_id) && local.candidates == ["subnet-a", "subnet-b"]
    error_message = "A subnet of the zone is chosen."
  }
}

run "another_name_may_choose_another_subnet" {
  command = plan

  variables {
    name = "node-2"
  }

  assert {
    condition     = local.subnet_id == ["subnet-a", "subnet-b"][parseint(substr(sha256("node-2"), 0, 8), 16) % 2]
    error_message = "The name selects the subnet."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    metadata_hop_limit       = 2
    disk_kms_key_arn         = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    detailed_monitoring      = true
    cni_policy               = false
    ssm_policy               = false
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    capacity_type            = "SPOT"
  }

  assert {
    condition     = aws_instance.this.metadata_options[0].http_put_response_hop_limit == 2 && aws_instance.this.monitoring && aws_instance.this.root_block_device[0].kms_key_id == "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    error_message = "Hop limit, monitoring and key reach the instance."
  }
  assert {
    condition     = toset(keys(aws_iam_role_policy_attachment.node)) == toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]) && aws_iam_role.node[0].permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    error_message = "Optional parts can be disabled."
  }
  assert {
    condition     = aws_instance.this.instance_market_options[0].market_type == "spot"
    error_message = "The spelling of AWS is understood."
  }
}

run "lookup_of_ipv6_services" {
  command = plan

  variables {
    cluster_service_cidr = null
    os                   = "Bottlerocket"
  }

  override_data {
    target = data.aws_eks_cluster.this
    values = {
      endpoint                  = "https://LOOKED.UP"
      certificate_authority     = [{ data = "TE9PS0VE" }]
      kubernetes_network_config = [{ service_ipv4_cidr = "", service_ipv6_cidr = "fd12:3456::/108", ip_family = "ipv6", elastic_load_balancing = [] }]
    }
  }

  assert {
    condition     = local.service_cidr == "fd12:3456::/108"
    error_message = "The services of a cluster with IPv6 have an IPv6 network."
  }
  assert {
    condition     = strcontains(base64decode(aws_instance.this.user_data_base64), "cluster-dns-ip = \"fd12:3456::a\"\n")
    error_message = "The DNS server of the cluster has the tenth address of this network."
  }
}

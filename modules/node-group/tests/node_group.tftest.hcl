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
    defaults = { insecure_value = "1.33.0-20260901" }
  }
  mock_data "aws_eks_clusters" {
    defaults = { names = ["demo", "other"] }
  }
  mock_data "aws_instances" {
    defaults = { ids = ["i-0bbbbbbbbbbbbbbbb", "i-0aaaaaaaaaaaaaaaa"] }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-workers-node" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
  }
  mock_resource "aws_eks_node_group" {
    defaults = {
      arn             = "arn:aws:eks:eu-central-1:123456789012:nodegroup/demo/workers-2025/0"
      node_group_name = "workers-2025"
      resources       = [{ autoscaling_groups = [{ name = "eks-workers-2025" }], remote_access_security_group_id = "" }]
    }
  }
}

variables {
  name               = "workers"
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  subnet_ids         = ["subnet-a"]
}

run "defaults" {
  command = plan

  assert {
    condition     = aws_launch_template.this.metadata_options[0].http_tokens == "required" && aws_launch_template.this.metadata_options[0].http_put_response_hop_limit == 1
    error_message = "IMDSv2 is required and pods do not reach it."
  }
  assert {
    condition     = alltrue([for d in aws_launch_template.this.block_device_mappings : tobool(d.ebs[0].encrypted)]) && aws_launch_template.this.block_device_mappings[0].device_name == "/dev/xvda" && aws_launch_template.this.block_device_mappings[0].ebs[0].volume_size == 50 && aws_launch_template.this.block_device_mappings[0].ebs[0].volume_type == "gp3"
    error_message = "The disk is encrypted, and has the desired size."
  }
  assert {
    condition     = aws_launch_template.this.vpc_security_group_ids == null
    error_message = "Without security groups EKS gives the nodes its own."
  }
  assert {
    condition     = aws_eks_node_group.this.capacity_type == "ON_DEMAND" && aws_eks_node_group.this.ami_type == "AL2023_x86_64_STANDARD" && aws_eks_node_group.this.version == "1.33"
    error_message = "Nodes are on-demand, run Amazon Linux 2023 and have the desired version."
  }
  assert {
    condition     = aws_eks_node_group.this.scaling_config[0].min_size == 1 && aws_eks_node_group.this.scaling_config[0].max_size == 3 && output.desired_size == 1
    error_message = "The desired number defaults to the minimum."
  }
  assert {
    condition     = aws_eks_node_group.this.update_config[0].max_unavailable_percentage == 33 && aws_eks_node_group.this.update_config[0].max_unavailable == null
    error_message = "A third of the nodes is updated at once."
  }
  assert {
    condition     = aws_eks_node_group.this.launch_template[0].id == "lt-0123456789abcdef0" && aws_eks_node_group.this.launch_template[0].version == "3"
    error_message = "The newest version of the launch template is used."
  }
  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[*].Principal.Service == ["ec2.amazonaws.com"] && jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[*].Action == ["sts:AssumeRole"]
    error_message = "Only instances may assume the nodes' role."
  }
  assert {
    condition     = toset(keys(aws_iam_role_policy_attachment.node)) == toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore"]) && aws_iam_role_policy_attachment.node["AmazonEKSWorkerNodePolicy"].policy_arn == "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    error_message = "The role has the managed policies of a node."
  }
  assert {
    condition     = toset(aws_launch_template.this.tag_specifications[*].resource_type) == toset(["instance", "network-interface", "volume"]) && aws_launch_template.this.tag_specifications[0].tags["Name"] == "demo-workers"
    error_message = "Instances, interfaces and disks are tagged."
  }
  assert {
    condition     = output.node_group_name == "workers-2025" && output.autoscaling_group_names == ["eks-workers-2025"] && output.node_role_name == "demo-workers-node"
    error_message = "The outputs name the group, its Auto Scaling group and its role."
  }
}

# The instances are looked up once the group exists.
run "provider_ids" {
  command = apply

  assert {
    condition     = output.node_selector == { "eks.amazonaws.com/nodegroup" = "workers-2025" }
    error_message = "EKS labels the nodes with the name of their group."
  }
  assert {
    condition     = output.provider_id_list == ["aws:///eu-central-1a/i-0aaaaaaaaaaaaaaaa", "aws:///eu-central-1a/i-0bbbbbbbbbbbbbbbb"]
    error_message = "Provider ids are in Kubernetes' form, in a stable order."
  }
  assert {
    condition     = { for f in data.aws_instances.this[0].filter : f.name => one(f.values) } == { "subnet-id" = "subnet-a", "tag:eks:cluster-name" = "demo", "tag:eks:nodegroup-name" = "workers-2025" }
    error_message = "Instances are those of this group of this cluster."
  }
}

run "spot_with_taints_and_labels" {
  command = plan

  variables {
    capacity_type  = "Spot"
    instance_types = ["m6i.large", "m5.large", "m6a.large"]
    min_size       = 0
    max_size       = 10
    desired_size   = 4
    labels         = { tier = "batch" }
    taints = [
      { key = "dedicated", value = "batch", effect = "NoSchedule" },
      { key = "slow", effect = "PreferNoSchedule" },
      { key = "gone", effect = "NoExecute" },
    ]
    tags = { Team = "platform" }
  }

  assert {
    condition     = aws_eks_node_group.this.capacity_type == "SPOT" && aws_eks_node_group.this.instance_types == tolist(["m6i.large", "m5.large", "m6a.large"])
    error_message = "Spot nodes have several instance types."
  }
  assert {
    condition     = { for t in aws_eks_node_group.this.taint : t.key => t.effect } == { dedicated = "NO_SCHEDULE", slow = "PREFER_NO_SCHEDULE", gone = "NO_EXECUTE" }
    error_message = "Effects are translated."
  }
  assert {
    condition     = aws_eks_node_group.this.labels == tomap({ tier = "batch" }) && output.desired_size == 4 && aws_eks_node_group.this.scaling_config[0].min_size == 0
    error_message = "Labels and sizes reach the group."
  }
  assert {
    condition     = alltrue([for s in aws_launch_template.this.tag_specifications : s.tags["Team"] == "platform"]) && aws_eks_node_group.this.tags["Team"] == "platform"
    error_message = "Tags are set on every resource."
  }
}

# Another system changed the number from 2 to 7.
run "an_autoscaler_keeps_its_number" {
  command = plan

  variables {
    autoscaled   = true
    min_size     = 1
    max_size     = 10
    desired_size = 2
  }

  override_data {
    target = data.aws_eks_node_groups.all
    values = { names = ["workers-20250101000000000000000001", "workers-other-20250101000000000000000001", "system-20250101000000000000000001"] }
  }
  override_data {
    target = data.aws_eks_node_group.existing
    values = { scaling_config = [{ desired_size = 7, min_size = 1, max_size = 10 }], status = "ACTIVE", tags = { Name = "demo-workers" } }
  }

  assert {
    condition     = keys(data.aws_eks_node_group.existing) == ["workers-20250101000000000000000001"] && aws_eks_node_group.this.scaling_config[0].desired_size == 7
    error_message = "The number of this group of nodes stays."
  }
}

run "an_autoscaled_group_of_a_new_cluster" {
  command = plan

  variables {
    autoscaled   = true
    desired_size = 2
  }

  override_data {
    target = data.aws_eks_clusters.all
    values = { names = ["other"] }
  }

  assert {
    condition     = length(data.aws_eks_node_groups.all) == 0 && aws_eks_node_group.this.scaling_config[0].desired_size == 2
    error_message = "The groups of a cluster that does not exist are not read."
  }
}

run "an_autoscaler_stays_within_the_limits" {
  command = plan

  variables {
    autoscaled = true
    min_size   = 1
    max_size   = 5
  }

  override_data {
    target = data.aws_eks_node_groups.all
    values = { names = ["workers-20250101000000000000000001"] }
  }
  override_data {
    target = data.aws_eks_node_group.existing
    values = { scaling_config = [{ desired_size = 7, min_size = 1, max_size = 10 }], status = "ACTIVE", tags = { Name = "demo-workers" } }
  }

  assert {
    condition     = aws_eks_node_group.this.scaling_config[0].desired_size == 5
    error_message = "New limits win over the old number."
  }
}

run "a_group_with_the_same_prefix_is_another_one" {
  command = plan

  variables {
    autoscaled   = true
    min_size     = 1
    max_size     = 10
    desired_size = 2
  }

  override_data {
    target = data.aws_eks_node_groups.all
    values = { names = ["workers-20250101000000000000000001"] }
  }
  override_data {
    target = data.aws_eks_node_group.existing
    values = { scaling_config = [{ desired_size = 7, min_size = 1, max_size = 10 }], status = "ACTIVE", tags = { Name = "demo-workers-with-a-longer-name" } }
  }

  assert {
    condition     = aws_eks_node_group.this.scaling_config[0].desired_size == 2
    error_message = "The number of another group does not count."
  }
}

run "a_group_that_is_being_deleted_does_not_count" {
  command = plan

  variables {
    autoscaled   = true
    min_size     = 1
    max_size     = 10
    desired_size = 2
  }

  override_data {
    target = data.aws_eks_node_groups.all
    values = { names = ["workers-20250101000000000000000001"] }
  }
  override_data {
    target = data.aws_eks_node_group.existing
    values = { scaling_config = [{ desired_size = 7, min_size = 1, max_size = 10 }], status = "DELETING", tags = { Name = "demo-workers" } }
  }

  assert {
    condition     = aws_eks_node_group.this.scaling_config[0].desired_size == 2
    error_message = "The number of a group that is being deleted does not count."
  }
}

run "an_autoscaler_starts_with_the_desired_size" {
  command = plan

  variables {
    autoscaled   = true
    desired_size = 2
  }

  override_data {
    target = data.aws_eks_node_groups.all
    values = { names = [] }
  }

  assert {
    condition     = aws_eks_node_group.this.scaling_config[0].desired_size == 2
    error_message = "A new group has the desired number."
  }
}

run "zones" {
  command = plan

  variables {
    subnet_ids         = ["subnet-a", "subnet-b"]
    availability_zones = ["eu-central-1a", "eu-central-1c"]
  }

  # Mocks are the same for all subnets.
  assert {
    condition     = aws_eks_node_group.this.subnet_ids == toset(["subnet-a", "subnet-b"])
    error_message = "Nodes are in the subnets of the zones."
  }
}

run "zones_of_a_vpc_that_got_more_subnets" {
  command = plan

  variables {
    subnet_ids         = ["subnet-a"]
    later_subnet_ids   = ["subnet-b"]
    availability_zones = ["eu-central-1a"]
  }

  # Mocks are the same for all subnets.
  assert {
    condition     = aws_eks_node_group.this.subnet_ids == toset(["subnet-a"])
    error_message = "The group stays where it is: another subnet would replace it."
  }
  assert {
    condition     = length(data.aws_instances.this) == 2
    error_message = "Nodes are found in all subnets."
  }
}

run "awss_own_spelling" {
  command = plan
  variables {
    capacity_type = "ON_DEMAND"
  }
  assert {
    condition     = aws_eks_node_group.this.capacity_type == "ON_DEMAND"
    error_message = "The spelling of AWS is understood."
  }
}

# Without ami_type, the image follows the instance types.
run "arm64_types_get_the_arm64_image" {
  command = plan

  variables {
    instance_types = ["m7g.large", "m6g.large"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["arm64"] }
  }

  assert {
    condition     = aws_eks_node_group.this.ami_type == "AL2023_ARM_64_STANDARD" && aws_launch_template.this.block_device_mappings[0].device_name == "/dev/xvda"
    error_message = "Nodes with arm64 run Amazon Linux 2023 for arm64."
  }
}

# The first types of AWS support two architectures of 32 and 64 bits.
run "old_types_get_the_64_bit_image" {
  command = plan

  variables {
    instance_types = ["t2.large"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["i386", "x86_64"] }
  }

  assert {
    condition     = aws_eks_node_group.this.ami_type == "AL2023_x86_64_STANDARD"
    error_message = "The image has 64 bits."
  }
}

run "bottlerocket" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { supported_architectures = ["arm64"] }
  }

  variables {
    ami_type           = "BOTTLEROCKET_ARM_64"
    instance_types     = ["m7g.large"]
    disk_size          = 100
    disk_kms_key_arn   = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    user_data          = "[settings.kernel]\nlockdown = \"integrity\"\n"
    security_group_ids = ["sg-nodes"]
    metadata_hop_limit = 2
    node_repair        = true
  }

  assert {
    condition     = { for d in aws_launch_template.this.block_device_mappings : d.device_name => d.ebs[0].volume_size if d.device_name == "/dev/xvdb" } == { "/dev/xvdb" = 100 } && toset(aws_launch_template.this.block_device_mappings[*].device_name) == toset(["/dev/xvda", "/dev/xvdb"])
    error_message = "The second disk has the desired size."
  }
  assert {
    condition     = alltrue([for d in aws_launch_template.this.block_device_mappings : tobool(d.ebs[0].encrypted) && d.ebs[0].kms_key_id == "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"])
    error_message = "Both disks are encrypted with the given key."
  }
  assert {
    condition     = strcontains(base64decode(aws_launch_template.this.user_data), "lockdown = \"integrity\"") && aws_launch_template.this.vpc_security_group_ids == toset(["sg-nodes"]) && aws_launch_template.this.metadata_options[0].http_put_response_hop_limit == 2
    error_message = "User data, security groups and hop limit reach the launch template."
  }
  assert {
    condition     = aws_eks_node_group.this.node_repair_config[0].enabled
    error_message = "Node repair can be switched on."
  }
}

run "an_image_of_your_own" {
  command = plan

  variables {
    ami_id                             = "ami-0123456789abcdef0"
    cluster_endpoint                   = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
    cluster_certificate_authority_data = "Q0E="
    cluster_service_cidr               = "172.20.0.0/16"
    labels                             = { team = "a" }
    taints                             = [{ key = "a", effect = "NoSchedule" }]
  }

  assert {
    condition     = aws_launch_template.this.image_id == "ami-0123456789abcdef0" && local.custom_ami
    error_message = "Nodes have the image."
  }
  assert {
    condition     = alltrue([for text in ["apiServerEndpoint\": \"https://ABCD", "certificateAuthority\": \"Q0E=", "cidr\": \"172.20.0.0/16", "--node-labels=team=a", "registerWithTaints"] : strcontains(base64decode(aws_launch_template.this.user_data), text)])
    error_message = "Nodes know the cluster that they join."
  }
}

run "an_image_that_joins_by_itself" {
  command = plan

  variables {
    ami_id    = "ami-0123456789abcdef0"
    user_data = "#!/bin/sh\njoin\n"
  }

  assert {
    condition     = base64decode(aws_launch_template.this.user_data) == "#!/bin/sh\njoin\n"
    error_message = "User data are not changed."
  }
}

run "a_given_role" {
  command = plan

  variables {
    node_role_arn = "arn:aws:iam::123456789012:role/eks/nodes"
  }

  assert {
    condition     = length(aws_iam_role.node) == 0 && length(aws_iam_role_policy_attachment.node) == 0 && aws_eks_node_group.this.node_role_arn == "arn:aws:iam::123456789012:role/eks/nodes" && output.node_role_name == "nodes"
    error_message = "A given role is used, and not changed."
  }
}

run "fewer_policies" {
  command = plan

  variables {
    cni_policy                 = false
    ssm_policy                 = false
    max_unavailable_percentage = 50
    permissions_boundary_arn   = "arn:aws:iam::123456789012:policy/boundary"
  }

  assert {
    condition     = toset(keys(aws_iam_role_policy_attachment.node)) == toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]) && aws_iam_role.node[0].permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    error_message = "Optional parts can be disabled."
  }
  assert {
    condition     = aws_eks_node_group.this.update_config[0].max_unavailable_percentage == 50
    error_message = "The short form of update_config works."
  }
}

run "a_number_of_unavailable_nodes" {
  command = plan

  variables {
    max_unavailable = 2
  }

  assert {
    condition     = aws_eks_node_group.this.update_config[0].max_unavailable == 2 && aws_eks_node_group.this.update_config[0].max_unavailable_percentage == null
    error_message = "A number replaces the percentage."
  }
}

run "an_update_config" {
  command = plan

  variables {
    name          = "a-node-group-with-a-name-of-63-characters-which-is-what-eks-all"
    update_config = { max_unavailable = 3 }
  }

  assert {
    condition     = aws_eks_node_group.this.update_config[0].max_unavailable == 3 && aws_eks_node_group.this.update_config[0].max_unavailable_percentage == null
    error_message = "update_config reaches the group."
  }
  assert {
    condition     = length(aws_eks_node_group.this.node_group_name_prefix) == 37 && length(aws_iam_role.node[0].name) <= 64
    error_message = "Long names are truncated to AWS's limit."
  }
}

run "the_newest_release" {
  command = plan

  variables {
    kubernetes_version = "1.33"
    release_version    = "latest"
  }

  assert {
    condition     = data.aws_ssm_parameter.release[0].name == "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/release_version" && aws_eks_node_group.this.release_version == "1.33.0-20260901"
    error_message = "AWS names the newest release."
  }
}

run "the_newest_release_with_drivers" {
  command = plan

  variables {
    kubernetes_version = "1.33"
    release_version    = "latest"
    ami_type           = "AL2023_x86_64_NVIDIA"
  }

  assert {
    condition     = data.aws_ssm_parameter.release[0].name == "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/release_version"
    error_message = "Each variant of the image has releases of its own."
  }
}

run "the_newest_release_of_bottlerocket" {
  command = plan

  variables {
    kubernetes_version = "1.33"
    release_version    = "latest"
    ami_type           = "BOTTLEROCKET_x86_64"
  }

  assert {
    condition     = data.aws_ssm_parameter.release[0].name == "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_version"
    error_message = "Bottlerocket has parameters of its own."
  }
}

run "the_newest_release_of_bottlerocket_with_fips" {
  command = plan

  variables {
    kubernetes_version = "1.33"
    release_version    = "latest"
    ami_type           = "BOTTLEROCKET_x86_64_FIPS"
  }

  assert {
    condition     = data.aws_ssm_parameter.release[0].name == "/aws/service/bottlerocket/aws-k8s-1.33-fips/x86_64/latest/image_version"
    error_message = "Its variants are part of the version."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    release_version     = "1.33.0-20250715"
    force_update        = true
    detailed_monitoring = true
    timeouts            = { create = "45m", update = "2h", delete = "30m" }
  }

  assert {
    condition     = aws_eks_node_group.this.release_version == "1.33.0-20250715" && aws_eks_node_group.this.force_update_version && aws_eks_node_group.this.timeouts.update == "2h"
    error_message = "Release, force and timeouts reach the group."
  }
  assert {
    condition     = aws_launch_template.this.monitoring[0].enabled
    error_message = "Detailed monitoring can be switched on."
  }
}

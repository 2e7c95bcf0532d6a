mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012", arn = "arn:aws:sts::123456789012:assumed-role/capt/session" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_eks_addon_version" {
    defaults = { version = "v1.0.0-eksbuild.1" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      arn                   = "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
      endpoint              = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
      certificate_authority = [{ data = "Q0E=" }]
      identity              = [{ oidc = [{ issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }] }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/demo-cluster" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_security_group" {
    defaults = { id = "sg-nodes" }
  }
}

variables {
  cluster_name       = "demo"
  kubernetes_version = "1.33"
  region             = "eu-central-1"
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-a", "subnet-b"]
}

run "defaults" {
  command = plan

  assert {
    condition     = aws_eks_cluster.this.name == "demo" && aws_eks_cluster.this.version == "1.33" && aws_eks_cluster.this.region == "eu-central-1"
    error_message = "Name, version and region reach the cluster."
  }
  assert {
    condition     = !aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_eks_cluster.this.vpc_config[0].endpoint_private_access
    error_message = "The API server is reached from the VPC only."
  }
  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].subnet_ids == toset(["subnet-a", "subnet-b"])
    error_message = "The control plane uses the nodes' subnets."
  }
  assert {
    condition     = aws_eks_cluster.this.encryption_config[0].resources == toset(["secrets"]) && aws_eks_cluster.this.encryption_config[0].provider[0].key_arn == aws_kms_key.secrets[0].arn && aws_kms_key.secrets[0].enable_key_rotation
    error_message = "Secrets are encrypted with a key of their own, which rotates."
  }
  assert {
    condition     = aws_eks_cluster.this.enabled_cluster_log_types == toset(["api", "audit", "authenticator"]) && aws_cloudwatch_log_group.this.name == "/aws/eks/demo/cluster" && aws_cloudwatch_log_group.this.retention_in_days == 90
    error_message = "Control-plane logs are on and kept for 90 days."
  }
  assert {
    condition     = aws_eks_cluster.this.access_config[0].authentication_mode == "API" && aws_eks_cluster.this.access_config[0].bootstrap_cluster_creator_admin_permissions
    error_message = "Access entries grant access to the cluster; its creator has access."
  }
  assert {
    condition     = jsondecode(aws_iam_role.cluster[0].assume_role_policy).Statement == [{ Action = ["sts:AssumeRole"], Effect = "Allow", Principal = { Service = "eks.amazonaws.com" }, Sid = "EKSControlPlane" }]
    error_message = "Only EKS may assume the control plane's role."
  }
  assert {
    condition     = aws_iam_role_policy_attachment.cluster[0].policy_arn == "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    error_message = "The role has the managed policy for control planes."
  }
  assert {
    condition     = jsondecode(aws_iam_role_policy.secrets[0].policy).Statement[0].Resource == aws_kms_key.secrets[0].arn
    error_message = "The control plane uses only this key."
  }
  assert {
    condition     = aws_iam_openid_connect_provider.this.url == "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" && aws_iam_openid_connect_provider.this.client_id_list == toset(["sts.amazonaws.com"])
    error_message = "Service accounts can assume IAM roles."
  }
  assert {
    condition     = toset(keys(aws_eks_addon.before_compute)) == toset(["vpc-cni", "kube-proxy", "eks-pod-identity-agent"]) && toset(keys(aws_eks_addon.this)) == toset(["coredns"])
    error_message = "Add-ons that nodes need are created before nodes, CoreDNS at the same time."
  }
  assert {
    condition     = aws_eks_cluster.this.bootstrap_self_managed_addons == false && aws_eks_addon.this["coredns"].addon_version == "v1.0.0-eksbuild.1"
    error_message = "Add-ons are EKS add-ons of the default version."
  }
  assert {
    condition     = data.aws_eks_addon_version.this["coredns"].kubernetes_version == "1.33" && !data.aws_eks_addon_version.this["coredns"].most_recent
    error_message = "The add-on's version is the default for the cluster's version."
  }
  assert {
    condition     = aws_security_group.node.tags["karpenter.sh/discovery"] == "demo" && aws_security_group.node.tags["kubernetes.io/cluster/demo"] == "owned"
    error_message = "Karpenter and load-balancer controllers find the nodes' security group."
  }
  assert {
    condition     = alltrue([for r in merge(aws_vpc_security_group_ingress_rule.node, aws_vpc_security_group_ingress_rule.cluster) : r.cidr_ipv4 == null])
    error_message = "No network has access by default."
  }
  assert {
    condition     = { for k, r in aws_vpc_security_group_ingress_rule.cluster : k => "${r.ip_protocol} ${r.from_port == null ? "" : "${r.from_port}-${r.to_port} "}from ${r.referenced_security_group_id}" } == { nodes = "-1 from sg-nodes", nodes_api = "tcp 443-443 from sg-nodes", nodes_dns_tcp = "tcp 53-53 from sg-nodes", nodes_dns_udp = "udp 53-53 from sg-nodes" }
    error_message = "Nodes reach the API server and all pods on Fargate."
  }
  assert {
    condition     = output.cluster_name == "demo" && output.cluster_endpoint == "https://ABCD.gr7.eu-central-1.eks.amazonaws.com" && output.cluster_certificate_authority_data == "Q0E=" && output.cluster_version == "1.33" && output.cluster_arn == "arn:aws:eks:eu-central-1:123456789012:cluster/demo"
    error_message = "The outputs describe the cluster."
  }
  assert {
    condition     = output.oidc_provider_url == "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD" && output.oidc_provider == "oidc.eks.eu-central-1.amazonaws.com/id/ABCD" && output.node_security_group_id == "sg-nodes" && output.cluster_security_group_id == aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
    error_message = "The outputs give the issuer in both spellings, and the security groups."
  }
}

run "outputs_of_several_clusters" {
  command = plan

  assert {
    condition     = output.eks_clusters["main"].name == "demo" && output.eks_clusters["main"].endpoint == output.cluster_endpoint && output.eks_cluster_endpoint["main"] == output.cluster_endpoint
    error_message = "The cluster is main."
  }
  assert {
    condition     = output.eks_cluster_oidc_provider_arn["main"] == output.oidc_provider_arn && output.eks_cluster_oidc_issuer_url["main"] == output.oidc_provider_url
    error_message = "Its issuer is main's."
  }
}

run "ipv6" {
  command = plan

  variables {
    ip_family = "ipv6"
  }

  assert {
    condition     = aws_eks_cluster.this.kubernetes_network_config[0].ip_family == "ipv6" && aws_vpc_security_group_egress_rule.node_ipv6[0].cidr_ipv6 == "::/0"
    error_message = "Pods and services have IPv6 addresses, and nodes reach the internet over IPv6."
  }
  assert {
    condition     = aws_iam_role.addon["vpc_cni"].name == "demo-eu-central-1-cni" && contains(jsondecode(aws_iam_role_policy.addon["vpc_cni"].policy).Statement[0].Action, "ec2:AssignIpv6Addresses") && aws_eks_pod_identity_association.addon["vpc_cni"].service_account == "aws-node"
    error_message = "The VPC CNI may assign IPv6 addresses."
  }
}

run "ipv6_with_irsa" {
  command = plan

  variables {
    ip_family      = "ipv6"
    addon_identity = "IRSA"
    cluster_addons = { vpc-cni = { version = "v1.20.0-eksbuild.1" }, kube-proxy = {} }
  }

  assert {
    condition     = aws_eks_addon.before_compute["vpc-cni"].service_account_role_arn == aws_iam_role.addon["vpc_cni"].arn && aws_eks_addon.before_compute["vpc-cni"].addon_version == "v1.20.0-eksbuild.1" && aws_eks_addon.before_compute["kube-proxy"].service_account_role_arn == null
    error_message = "The add-on has the role, and keeps its settings."
  }
}

# What is known only after the apply cannot decide how many resources there are.
run "roles_and_keys_of_the_same_configuration" {
  command = plan

  module {
    source = "./tests/unknown"
  }

  assert {
    condition     = output.names == ["demo", "apps"]
    error_message = "The modules can be planned."
  }
}

run "no_auto_mode_by_default" {
  command = plan

  assert {
    condition     = length(aws_iam_role.auto_mode_node) == 0 && length(aws_iam_role_policy_attachment.auto_mode) == 0 && output.auto_mode_node_role_arn == null
    error_message = "Nothing of Auto Mode is created."
  }
}

run "no_zonal_shift_by_default" {
  command = plan

  assert {
    condition     = !aws_eks_cluster.this.zonal_shift_config[0].enabled
    error_message = "It is disabled explicitly: a removed block would be an update without a change, which EKS refuses."
  }
}

run "auto_mode" {
  command = plan

  variables {
    auto_mode      = { enabled = true }
    cluster_addons = {}
  }

  assert {
    condition     = aws_eks_cluster.this.compute_config[0].enabled && aws_eks_cluster.this.storage_config[0].block_storage[0].enabled && aws_eks_cluster.this.kubernetes_network_config[0].elastic_load_balancing[0].enabled
    error_message = "Compute, storage and load balancing are enabled together."
  }
  assert {
    condition     = aws_eks_cluster.this.compute_config[0].node_pools == toset(["general-purpose", "system"]) && aws_eks_cluster.this.compute_config[0].node_role_arn == aws_iam_role.auto_mode_node[0].arn && aws_eks_cluster.this.bootstrap_self_managed_addons == false
    error_message = "EKS's own pools create nodes with the role of the module."
  }
  assert {
    condition     = jsondecode(aws_iam_role.cluster[0].assume_role_policy).Statement[0].Action == ["sts:AssumeRole", "sts:TagSession"]
    error_message = "The control plane tags its sessions."
  }
  assert {
    condition     = toset([for a in aws_iam_role_policy_attachment.auto_mode : a.policy_arn]) == toset([for p in ["BlockStorage", "Compute", "LoadBalancing", "Networking"] : "arn:aws:iam::aws:policy/AmazonEKS${p}Policy"])
    error_message = "The control plane has the policies of Auto Mode."
  }
  assert {
    condition     = toset([for a in aws_iam_role_policy_attachment.auto_mode_node : a.policy_arn]) == toset(["arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodeMinimalPolicy"]) && aws_iam_role.auto_mode_node[0].name == "demo-eu-central-1-auto-node"
    error_message = "Nodes pull images and register, and can do nothing else."
  }
  assert {
    condition     = length(aws_eks_access_entry.auto_mode_node) == 0 && length(aws_eks_addon.before_compute) == 0 && length(aws_eks_addon.this) == 0
    error_message = "EKS creates the access entry of its own pools, and runs what the add-ons would."
  }
}

run "auto_mode_with_pools_of_your_own" {
  command = plan

  variables {
    auto_mode = { enabled = true, node_pools = [], node_role_arn = "arn:aws:iam::123456789012:role/auto" }
  }

  assert {
    condition     = length(aws_eks_cluster.this.compute_config[0].node_pools) == 0 && aws_eks_cluster.this.compute_config[0].node_role_arn == null
    error_message = "EKS refuses a role without its own pools."
  }
  assert {
    condition     = length(aws_iam_role.auto_mode_node) == 0 && aws_eks_access_entry.auto_mode_node[0].principal_arn == "arn:aws:iam::123456789012:role/auto" && aws_eks_access_entry.auto_mode_node[0].type == "EC2"
    error_message = "Nodes with the existing role may join."
  }
  assert {
    condition     = aws_eks_access_policy_association.auto_mode_node[0].policy_arn == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy" && output.auto_mode_node_role_arn == "arn:aws:iam::123456789012:role/auto"
    error_message = "Nodes have the access policy of Auto Mode."
  }
}

run "auto_mode_is_disabled" {
  command = plan

  variables {
    auto_mode = { enabled = false }
  }

  assert {
    condition     = !aws_eks_cluster.this.compute_config[0].enabled && !aws_eks_cluster.this.storage_config[0].block_storage[0].enabled && !aws_eks_cluster.this.kubernetes_network_config[0].elastic_load_balancing[0].enabled
    error_message = "Compute, storage and load balancing are disabled together."
  }
  assert {
    condition     = length(aws_eks_cluster.this.compute_config[0].node_pools) == 0 && aws_eks_cluster.this.compute_config[0].node_role_arn == null && length(aws_iam_role.auto_mode_node) == 1
    error_message = "The role stays while nodes end."
  }
}

run "a_public_endpoint" {
  command = plan

  variables {
    endpoint_public_access       = true
    endpoint_private_access      = false
    endpoint_public_access_cidrs = ["203.0.113.0/24"]
    control_plane_subnet_ids     = ["subnet-x", "subnet-y"]
    private_access_cidrs         = ["10.200.0.0/16", "2001:db8::/32"]
    node_security_group_rules    = { ssh = { description = "SSH", from_port = 22, to_port = 22, cidr_ipv6 = "2001:db8:1::/48" } }
  }

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_eks_cluster.this.vpc_config[0].public_access_cidrs == toset(["203.0.113.0/24"])
    error_message = "The public endpoint is open to the named networks."
  }
  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].subnet_ids == toset(["subnet-x", "subnet-y"])
    error_message = "The control plane has its own subnets."
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.cluster["private_access_10.200.0.0/16"].cidr_ipv4 == "10.200.0.0/16" && aws_vpc_security_group_ingress_rule.cluster["private_access_10.200.0.0/16"].from_port == 443
    error_message = "A peered network reaches the private endpoint."
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.cluster["private_access_2001:db8::/32"].cidr_ipv6 == "2001:db8::/32" && aws_vpc_security_group_ingress_rule.cluster["private_access_2001:db8::/32"].cidr_ipv4 == null
    error_message = "So does one with IPv6."
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.node["ssh"].cidr_ipv6 == "2001:db8:1::/48" && aws_vpc_security_group_ingress_rule.node["ssh"].cidr_ipv4 == null
    error_message = "Further rules can have IPv6."
  }
}

run "no_roles_of_controllers_by_default" {
  command = plan

  assert {
    condition     = length(aws_iam_role.addon) == 0 && length(aws_eks_pod_identity_association.addon) == 0 && output.addon_role_arns == {} && output.aws_load_balancer_controller_identity == null
    error_message = "Roles of controllers are created on request."
  }
}

run "controllers_with_pod_identity" {
  command = plan

  variables {
    ebs_csi_driver                    = true
    ebs_csi_kms_key_arns              = ["arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"]
    aws_load_balancer_controller_role = true
    external_dns_role                 = true
    external_dns_hosted_zones         = ["Z2", "Z1"]
    cert_manager_role                 = true
    cert_manager_hosted_zones         = ["Z3"]
    addon_service_accounts            = { external_dns = { namespace = "dns", name = "external" } }
  }

  assert {
    condition     = { for name, role in aws_iam_role.addon : name => role.name } == { ebs_csi_driver = "demo-eu-central-1-ebs-csi", aws_load_balancer_controller = "demo-eu-central-1-elb", external_dns = "demo-eu-central-1-dns", cert_manager = "demo-eu-central-1-cert" }
    error_message = "Each controller has a role."
  }
  assert {
    condition = jsondecode(aws_iam_role.addon["external_dns"].assume_role_policy).Statement == [{
      Sid       = "ServiceAccount"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/eks-cluster-arn"            = ["arn:aws:eks:eu-central-1:123456789012:cluster/demo"]
          "aws:RequestTag/kubernetes-namespace"       = ["dns"]
          "aws:RequestTag/kubernetes-service-account" = ["external"]
        }
      }
    }]
    error_message = "Only the controller's service account of this cluster assumes its role."
  }
  assert {
    condition     = { for name, a in aws_eks_pod_identity_association.addon : name => "${a.namespace}/${a.service_account}" } == { ebs_csi_driver = "kube-system/ebs-csi-controller-sa", aws_load_balancer_controller = "kube-system/aws-load-balancer-controller", external_dns = "dns/external", cert_manager = "cert-manager/cert-manager" }
    error_message = "Each service account has an association."
  }
  assert {
    condition     = contains(keys(aws_eks_addon.this), "aws-ebs-csi-driver") && aws_eks_addon.this["aws-ebs-csi-driver"].service_account_role_arn == null && aws_iam_role_policy_attachment.ebs_csi_driver[0].policy_arn == "arn:aws:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"
    error_message = "The EBS CSI driver is installed, after the nodes, with AWS's policy."
  }
  assert {
    condition     = [for s in jsondecode(aws_iam_role_policy.addon["ebs_csi_driver"].policy).Statement : s.Resource] == [["arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"], ["arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"]]
    error_message = "The driver uses only the given keys."
  }
  assert {
    condition     = jsondecode(aws_iam_role_policy.addon["external_dns"].policy).Statement[0].Resource == ["arn:aws:route53:::hostedzone/Z1", "arn:aws:route53:::hostedzone/Z2"]
    error_message = "external-dns changes only the given zones."
  }
  assert {
    condition     = jsondecode(aws_iam_role_policy.addon["cert_manager"].policy).Statement[0].Resource == ["arn:aws:route53:::hostedzone/Z3"] && jsondecode(aws_iam_role_policy.addon["cert_manager"].policy).Statement[0].Condition["ForAllValues:StringEquals"]["route53:ChangeResourceRecordSetsRecordTypes"] == ["TXT"]
    error_message = "cert-manager changes only TXT records of the given zones."
  }
  assert {
    condition     = alltrue(flatten([for name, p in aws_iam_role_policy.addon : [for s in jsondecode(p.policy).Statement : [for a in flatten([s.Action]) : endswith(a, "*") ? contains(["kms:GenerateDataKey*", "kms:ReEncrypt*"], a) : true]]]))
    error_message = "No controller has all actions of a service."
  }
  assert {
    condition = alltrue([for s in jsondecode(aws_iam_role_policy.addon["aws_load_balancer_controller"].policy).Statement :
      contains(["Create", "Change", "Tag", "TagNew", "TagSecurityGroups", "TagNewSecurityGroups", "DeleteSecurityGroups"], s.Sid) ? contains(values(s.Condition.StringEquals), "demo") : true
    ])
    error_message = "The controller changes only load balancers and security groups of this cluster."
  }
  assert {
    condition     = { for s in jsondecode(aws_iam_role_policy.addon["aws_load_balancer_controller"].policy).Statement : s.Sid => try(s.Condition.ArnLike["ec2:Vpc"], "") }["SecurityGroupRules"] == "arn:aws:ec2:eu-central-1:*:vpc/vpc-0123456789abcdef0"
    error_message = "The controller opens ports only in this VPC."
  }
  assert {
    condition     = length(aws_iam_role_policy.addon["aws_load_balancer_controller"].policy) <= 10240
    error_message = "An inline policy has at most 10,240 characters."
  }
  assert {
    condition     = output.aws_load_balancer_controller_identity == "PodIdentity" && output.aws_load_balancer_controller_irsa_role_arn == null && length(output.addon_role_arns) == 4
    error_message = "The outputs show the roles. With Pod Identity a service account has no annotation."
  }
}

run "controllers_with_irsa" {
  command = plan

  variables {
    addon_identity                    = "IRSA"
    ebs_csi_driver                    = true
    ebs_csi_policy_arn                = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
    aws_load_balancer_controller_role = true
    cluster_addons = {
      vpc-cni            = {}
      coredns            = {}
      aws-ebs-csi-driver = { version = "v1.50.0-eksbuild.1" }
    }
  }

  assert {
    condition     = length(aws_eks_pod_identity_association.addon) == 0 && jsondecode(aws_iam_role.addon["ebs_csi_driver"].assume_role_policy).Statement[0].Condition.StringEquals["oidc.eks.eu-central-1.amazonaws.com/id/ABCD:sub"] == ["system:serviceaccount:kube-system:ebs-csi-controller-sa"]
    error_message = "The service account assumes the role through the cluster's issuer."
  }
  assert {
    condition     = aws_eks_addon.this["aws-ebs-csi-driver"].service_account_role_arn == aws_iam_role.addon["ebs_csi_driver"].arn && aws_eks_addon.this["aws-ebs-csi-driver"].addon_version == "v1.50.0-eksbuild.1"
    error_message = "EKS annotates the driver's service account; an entry of cluster_addons still configures it."
  }
  assert {
    condition     = aws_iam_role_policy_attachment.ebs_csi_driver[0].policy_arn == "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
    error_message = "The policy can be chosen."
  }
  assert {
    condition     = output.aws_load_balancer_controller_identity == "IRSA" && output.aws_load_balancer_controller_irsa_role_arn == aws_iam_role.addon["aws_load_balancer_controller"].arn
    error_message = "The add-on annotates the controller's service account."
  }
}

run "a_creator_that_can_be_revoked" {
  command = plan

  variables {
    cluster_creator_admin = false
    cluster_creator_entry = true
    access_entries = {
      viewer = {
        principal_arn       = "arn:aws:iam::123456789012:role/viewer"
        policy_associations = { view = { policy_name = "AmazonEKSViewPolicy" } }
      }
    }
  }

  override_data {
    target = data.aws_iam_session_context.current
    values = { issuer_arn = "arn:aws:iam::123456789012:role/capt" }
  }

  assert {
    condition     = aws_eks_access_entry.creator[0].principal_arn == "arn:aws:iam::123456789012:role/capt" && aws_eks_access_policy_association.creator[0].policy_arn == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    error_message = "The role behind the session administers the cluster."
  }
  assert {
    condition     = !aws_eks_cluster.this.access_config[0].bootstrap_cluster_creator_admin_permissions
    error_message = "EKS gives the creator no access of its own."
  }
  assert {
    condition     = aws_eks_access_policy_association.this["viewer/view"].policy_arn == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    error_message = "A policy can be given by its name."
  }
}

run "a_creator_without_an_entry" {
  command = plan

  variables {
    cluster_creator_admin = false
  }

  assert {
    condition     = length(aws_eks_access_entry.creator) == 0 && length(aws_eks_access_policy_association.creator) == 0
    error_message = "Without the entry the creator has no access."
  }
}

run "roles_of_a_cluster_with_a_long_name" {
  command = plan

  variables {
    cluster_name   = "a-cluster-with-a-name-that-is-almost-as-long-as-eks-permits-it-to-be-for-a-cluster-in-europe"
    ebs_csi_driver = true
  }

  assert {
    condition     = length(aws_iam_role.addon["ebs_csi_driver"].name) == 64 && endswith(aws_iam_role.addon["ebs_csi_driver"].name, "-ebs-csi")
    error_message = "A name of a role has at most 64 characters."
  }
}

run "access_entries" {
  command = plan

  variables {
    cluster_creator_admin = false
    access_entries = {
      admin = {
        principal_arn = "arn:aws:iam::123456789012:role/admin"
        policy_associations = {
          admin = { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy" }
        }
      }
      team = {
        principal_arn = "arn:aws:iam::123456789012:role/team"
        policy_associations = {
          edit = {
            policy_arn   = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"
            access_scope = { type = "namespace", namespaces = ["team"] }
          }
        }
      }
      readers = {
        principal_arn     = "arn:aws:iam::123456789012:role/readers"
        kubernetes_groups = ["readers"]
      }
    }
  }

  assert {
    condition     = toset(keys(aws_eks_access_entry.this)) == toset(["admin", "team", "readers"]) && aws_eks_access_entry.this["readers"].kubernetes_groups == toset(["readers"])
    error_message = "Each principal has an entry."
  }
  assert {
    condition     = aws_eks_access_policy_association.this["admin/admin"].access_scope[0].type == "cluster" && aws_eks_access_policy_association.this["team/edit"].access_scope[0].namespaces == toset(["team"]) && aws_eks_access_policy_association.this["team/edit"].principal_arn == "arn:aws:iam::123456789012:role/team"
    error_message = "Policies reach the cluster or namespaces."
  }
  assert {
    condition     = !aws_eks_cluster.this.access_config[0].bootstrap_cluster_creator_admin_permissions
    error_message = "The creator is not an administrator if this is disabled."
  }
}

run "given_roles_and_keys" {
  command = plan

  variables {
    kms_key_arn         = "arn:aws:kms:eu-central-1:123456789012:key/99999999-2222-3333-4444-555555555555"
    iam_role_arn        = "arn:aws:iam::123456789012:role/control-plane"
    deletion_protection = true
    zonal_shift         = true
    service_ipv4_cidr   = "172.20.0.0/16"
    support_type        = "STANDARD"
    log_types           = ["audit"]
    log_retention_days  = 7
    timeouts            = { create = "45m" }
  }

  assert {
    condition     = length(aws_kms_key.secrets) == 0 && length(aws_kms_alias.secrets) == 0 && aws_eks_cluster.this.encryption_config[0].provider[0].key_arn == "arn:aws:kms:eu-central-1:123456789012:key/99999999-2222-3333-4444-555555555555"
    error_message = "A given key is used."
  }
  assert {
    condition     = length(aws_iam_role.cluster) == 0 && aws_eks_cluster.this.role_arn == "arn:aws:iam::123456789012:role/control-plane"
    error_message = "A given role is used, and not changed."
  }
  assert {
    condition     = aws_eks_cluster.this.deletion_protection && aws_eks_cluster.this.zonal_shift_config[0].enabled && aws_eks_cluster.this.kubernetes_network_config[0].service_ipv4_cidr == "172.20.0.0/16" && aws_eks_cluster.this.upgrade_policy[0].support_type == "STANDARD" && aws_eks_cluster.this.timeouts.create == "45m"
    error_message = "The switches reach the cluster."
  }
}

run "add_ons" {
  command = plan

  variables {
    cluster_addons = {
      vpc-cni = { version = "v1.19.0-eksbuild.1", configuration_values = "{\"env\":{\"ENABLE_PREFIX_DELEGATION\":\"true\"}}" }
      coredns = { before_compute = false, most_recent = true }
      aws-ebs-csi-driver = {
        pod_identity_associations   = [{ role_arn = "arn:aws:iam::123456789012:role/ebs-csi", service_account = "ebs-csi-controller-sa" }]
        resolve_conflicts_on_update = "PRESERVE"
      }
      cni-of-ours = { before_compute = true, version = "v1.2.3-eksbuild.1" }
    }
  }

  assert {
    condition     = aws_eks_addon.before_compute["vpc-cni"].addon_version == "v1.19.0-eksbuild.1" && jsondecode(aws_eks_addon.before_compute["vpc-cni"].configuration_values).env.ENABLE_PREFIX_DELEGATION == "true"
    error_message = "Version and settings reach the add-on."
  }
  assert {
    condition     = toset(keys(aws_eks_addon.before_compute)) == toset(["vpc-cni", "cni-of-ours"]) && toset(keys(aws_eks_addon.this)) == toset(["coredns", "aws-ebs-csi-driver"])
    error_message = "before_compute decides when an add-on is created."
  }
  assert {
    condition     = one(aws_eks_addon.this["aws-ebs-csi-driver"].pod_identity_association).service_account == "ebs-csi-controller-sa" && aws_eks_addon.this["aws-ebs-csi-driver"].resolve_conflicts_on_update == "PRESERVE"
    error_message = "An add-on can have a role through Pod Identity."
  }
  assert {
    condition     = data.aws_eks_addon_version.this["coredns"].most_recent && !contains(keys(data.aws_eks_addon_version.this), "vpc-cni")
    error_message = "Only versions that are not set are looked up."
  }
  assert {
    condition     = output.cluster_addons["vpc-cni"] == "v1.19.0-eksbuild.1"
    error_message = "The output has the versions."
  }
}

run "a_long_name_still_fits_a_role" {
  command = plan

  variables {
    cluster_name = "a-cluster-name-of-one-hundred-characters-which-eks-allows-although-no-iam-role-may-have-a-name-so"
  }

  assert {
    condition     = length(aws_iam_role.cluster[0].name) == 64 && startswith(aws_iam_role.cluster[0].name, "a-cluster-name-of-one-hundred-characters") && endswith(aws_iam_role.cluster[0].name, "-cluster")
    error_message = "The role's name is truncated and unique."
  }
}

run "further_rules" {
  command = plan

  variables {
    node_security_group_rules = {
      metrics = { description = "Metrics", from_port = 9100, to_port = 9100, cidr_ipv4 = "10.0.0.0/16" }
    }
    cluster_security_group_rules = {
      kubelet = { description = "Kubelets on Fargate", from_port = 10250, to_port = 10250, referenced_security_group_id = "sg-other" }
    }
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.node["metrics"].cidr_ipv4 == "10.0.0.0/16" && aws_vpc_security_group_ingress_rule.cluster["kubelet"].referenced_security_group_id == "sg-other"
    error_message = "Further rules are added to both groups."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    authentication_mode      = "API_AND_CONFIG_MAP"
    log_kms_key_arn          = "arn:aws:kms:eu-central-1:123456789012:key/99999999-2222-3333-4444-555555555555"
    kms_deletion_window_days = 7
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    timeouts                 = { update = "1h", delete = "30m" }
    tags                     = { Team = "platform" }
    cluster_addons = {
      coredns = { service_account_role_arn = "arn:aws:iam::123456789012:role/coredns", preserve = true, resolve_conflicts_on_create = "NONE" }
    }
    access_entries = {
      windows = { principal_arn = "arn:aws:iam::123456789012:role/windows", type = "EC2_WINDOWS" }
      person  = { principal_arn = "arn:aws:iam::123456789012:user/person", user_name = "person" }
    }
  }

  assert {
    condition     = aws_eks_cluster.this.access_config[0].authentication_mode == "API_AND_CONFIG_MAP" && aws_eks_cluster.this.timeouts.update == "1h" && aws_eks_cluster.this.timeouts.delete == "30m"
    error_message = "Authentication and timeouts reach the cluster."
  }
  assert {
    condition     = aws_cloudwatch_log_group.this.kms_key_id == "arn:aws:kms:eu-central-1:123456789012:key/99999999-2222-3333-4444-555555555555" && aws_kms_key.secrets[0].deletion_window_in_days == 7
    error_message = "The keys match the variables."
  }
  assert {
    condition     = aws_iam_role.cluster[0].permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    error_message = "The role has its boundary."
  }
  assert {
    condition     = aws_eks_addon.this["coredns"].service_account_role_arn == "arn:aws:iam::123456789012:role/coredns" && aws_eks_addon.this["coredns"].preserve && aws_eks_addon.this["coredns"].resolve_conflicts_on_create == "NONE"
    error_message = "An add-on can have a role through IRSA and be preserved on deletion."
  }
  assert {
    condition     = aws_eks_access_entry.this["windows"].type == "EC2_WINDOWS" && aws_eks_access_entry.this["person"].user_name == "person"
    error_message = "Entries have their types and names."
  }
  assert {
    condition     = alltrue([for t in [aws_eks_cluster.this.tags, aws_cloudwatch_log_group.this.tags, aws_iam_role.cluster[0].tags, aws_kms_key.secrets[0].tags, aws_security_group.node.tags, aws_eks_addon.this["coredns"].tags, aws_eks_access_entry.this["person"].tags, aws_iam_openid_connect_provider.this.tags, aws_vpc_security_group_egress_rule.node.tags, aws_vpc_security_group_ingress_rule.node["nodes"].tags] : t["Team"] == "platform"])
    error_message = "Tags are set on every resource."
  }
}

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/KarpenterController" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/Mocked" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:Karpenter-demo"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/Karpenter-demo"
    }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/Mocked" }
  }
}

mock_provider "helm" {
  mock_resource "helm_release" {
    defaults = { status = "deployed" }
  }
}

variables {
  karpenter_chart_version    = "1.14.1"
  cluster_name               = "demo"
  oidc_provider_arn          = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  oidc_issuer_url            = "https://oidc.eks.eu-central-1.amazonaws.com/id/ABCD"
  node_instance_profile_name = "KarpenterNodeInstanceProfile"
  cluster_endpoint           = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
  karpenter_configs          = { main = { name = "karpenter", namespace = "karpenter" } }
  iam_roles                  = { karpenter_controller = { name = "KarpenterController" } }
  iam_roles_attachments      = {}
}

run "defaults_of_the_object" {
  command = plan

  assert {
    condition     = var.karpenter_configs["main"].chart == "karpenter" && var.karpenter_configs["main"].repository == "oci://public.ecr.aws/karpenter" && local.versions == { main = "1.14.1" } && var.karpenter_configs["main"].create_namespace && length(var.karpenter_configs["main"].values) == 0 && length(var.karpenter_configs["main"].additional_sets) == 0
    error_message = "The object's defaults are the documented ones."
  }
  assert {
    condition     = helm_release.karpenter["main"].name == "karpenter" && helm_release.karpenter["main"].namespace == "karpenter" && helm_release.karpenter["main"].create_namespace && helm_release.karpenter["main"].repository == "oci://public.ecr.aws/karpenter" && helm_release.karpenter["main"].chart == "karpenter"
    error_message = "The release matches the configuration."
  }
  assert {
    condition     = helm_release.karpenter["main"].version == "1.14.1"
    error_message = "Without a version of its own the release has karpenter_chart_version."
  }
  assert {
    condition = yamldecode(helm_release.karpenter["main"].values[0]) == {
      settings = {
        clusterName       = "demo"
        clusterEndpoint   = "https://ABCD.gr7.eu-central-1.eks.amazonaws.com"
        interruptionQueue = "Karpenter-demo"
        enableZonalShift  = false
      }
      serviceAccount = {
        create      = true
        name        = "karpenter"
        annotations = { "eks.amazonaws.com/role-arn" = "arn:aws:iam::123456789012:role/KarpenterController" }
      }
    }
    error_message = "The chart gets cluster, queue and role."
  }
  assert {
    condition     = output.karpenter_releases["main"].name == "karpenter" && output.karpenter_releases["main"].status == "deployed" && output.karpenter_releases["main"].version == "1.14.1"
    error_message = "karpenter_releases describes the release."
  }
  assert {
    condition     = output.iam_roles["karpenter_controller"].name == "KarpenterController" && output.iam_roles["karpenter_controller"].taken_by == "IRSA" && output.iam_roles["karpenter_controller"].arn == output.karpenter_iam_role_arn
    error_message = "iam_roles describes the roles."
  }
  assert {
    condition     = output.karpenter_instance_profile_name == "KarpenterNodeInstanceProfile" && output.karpenter_node_role_name != "" && output.karpenter_queue_name == "Karpenter-demo"
    error_message = "The instance profile has the given name."
  }
}

run "as_the_readme_uses_it" {
  command = plan

  variables {
    karpenter_chart_version = "0.37.0"
    environment             = "production"
    karpenter_configs = {
      main = {
        name             = "karpenter"
        namespace        = "karpenter"
        chart            = "karpenter"
        repository       = "oci://public.ecr.aws/karpenter"
        version          = "0.37.0"
        create_namespace = true
        values           = ["replicas: 3\n"]
        additional_sets = [
          { name = "controller.resources.requests.cpu", value = "1" },
          { name = "controller.resources.requests.memory", value = "1Gi", type = "auto" },
        ]
      }
    }
    iam_roles = {
      karpenter_controller = {
        name    = "KarpenterController"
        service = "eks.amazonaws.com"
        tags    = { Purpose = "Karpenter Controller" }
      }
    }
    iam_roles_attachments = {
      karpenter_controller_policy = {
        role_key   = "karpenter_controller"
        policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
      }
    }
    tags = { Project = "EKS Infrastructure" }
  }

  assert {
    condition     = helm_release.karpenter["main"].version == "0.37.0"
    error_message = "An old release can still be named."
  }
  assert {
    condition     = length(helm_release.karpenter["main"].values) == 2 && helm_release.karpenter["main"].values[1] == "replicas: 3\n"
    error_message = "The user's values take precedence over the module's."
  }
  assert {
    condition     = [for s in helm_release.karpenter["main"].set : "${s.name}=${s.value} (${s.type})"] == ["controller.resources.requests.cpu=1 (string)", "controller.resources.requests.memory=1Gi (auto)"]
    error_message = "additional_sets reach the release, as strings by default."
  }
  assert {
    condition     = local.policies_version == "0.37.0" && local.tags == tomap({ Project = "EKS Infrastructure", Environment = "production" })
    error_message = "The policies match the release, and the environment is a tag."
  }
}

run "several_configurations" {
  command = plan

  variables {
    karpenter_configs = {
      main = { name = "karpenter", namespace = "karpenter", version = "1.13.0" }
      gpu  = { name = "karpenter-gpu", namespace = "gpu", create_namespace = false }
      old  = { name = "karpenter-old", namespace = "old", version = "0.37.0" }
    }
    iam_roles = {
      karpenter_controller = { name = "KarpenterController" }
      gpu                  = { name = "KarpenterGPU", service = "pods.eks.amazonaws.com" }
    }
  }

  assert {
    condition     = { for k, r in helm_release.karpenter : k => "${r.namespace}/${r.name} ${r.version}" } == { main = "karpenter/karpenter 1.13.0", gpu = "gpu/karpenter-gpu 1.14.1", old = "old/karpenter-old 0.37.0" }
    error_message = "Each configuration is a release, in the version that it names."
  }
  assert {
    condition     = local.role_of == { main = "karpenter_controller", gpu = "gpu", old = "karpenter_controller" }
    error_message = "A release has the role with its key, else the documented one."
  }
  assert {
    condition     = length(yamldecode(helm_release.karpenter["gpu"].values[0]).serviceAccount.annotations) == 0 && length(yamldecode(helm_release.karpenter["old"].values[0]).serviceAccount.annotations) == 1
    error_message = "IRSA needs the annotation, Pod Identity does not."
  }
  assert {
    condition     = output.iam_roles["gpu"].taken_by == "PodIdentity" && length(output.karpenter_releases) == 3
    error_message = "The outputs contain every role and release."
  }
}

run "without_helm" {
  command = plan

  variables {
    helm_enabled     = false
    create_node_role = false
    node_role_arn    = "arn:aws:iam::123456789012:role/nodes"
  }

  assert {
    condition     = length(helm_release.karpenter) == 0 && length(output.karpenter_releases) == 0
    error_message = "Without Helm nothing is installed."
  }
  assert {
    condition     = output.karpenter_iam_role_arn == "arn:aws:iam::123456789012:role/KarpenterController" && output.karpenter_queue_name == "Karpenter-demo" && output.karpenter_node_role_name == "nodes"
    error_message = "The outputs that another installer needs exist."
  }
}

run "an_existing_instance_profile" {
  command = plan

  variables {
    create_instance_profile = false
  }

  override_data {
    target = module.iam.data.aws_iam_instance_profile.node
    values = { role_arn = "arn:aws:iam::123456789012:role/existing" }
  }

  assert {
    condition     = output.karpenter_instance_profile_name == "KarpenterNodeInstanceProfile" && output.karpenter_node_role_arn == "arn:aws:iam::123456789012:role/existing"
    error_message = "The named instance profile and its role are used."
  }
}

run "the_remaining_options" {
  command = plan

  variables {
    region             = "eu-west-1"
    queue_name         = "interruptions"
    zonal_shift        = true
    node_role_name     = "Nodes"
    interruption_queue = true
  }

  assert {
    condition     = yamldecode(helm_release.karpenter["main"].values[0]).settings.interruptionQueue == "interruptions" && yamldecode(helm_release.karpenter["main"].values[0]).settings.enableZonalShift
    error_message = "Queue and zonal shift reach the chart."
  }
}

run "without_a_queue" {
  command = plan

  variables {
    interruption_queue = false
  }

  assert {
    condition     = yamldecode(helm_release.karpenter["main"].values[0]).settings.interruptionQueue == ""
    error_message = "Without a queue the chart gets none."
  }
}

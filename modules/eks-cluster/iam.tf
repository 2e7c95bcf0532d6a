locals {
  create_role = coalesce(var.create_iam_role, var.iam_role_arn == null)
  role_arn    = local.create_role ? aws_iam_role.cluster[0].arn : var.iam_role_arn

  cluster_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EKSControlPlane"
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      # Auto Mode tags its sessions.
      Action = concat(["sts:AssumeRole"], local.auto_mode_exists ? ["sts:TagSession"] : [])
    }]
  }

  secrets_policy = {
    Version = "2012-10-17"
    Statement = [{
      Sid    = "EncryptSecrets"
      Effect = "Allow"
      Action = [
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:ListGrants",
      ]
      Resource = local.kms_key_arn
    }]
  }
}

resource "aws_iam_role" "cluster" {
  count = local.create_role ? 1 : 0

  name                 = local.role_name
  description          = "Control plane of the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.cluster_trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags

  lifecycle {
    # An imported role keeps its name: a new one would replace it.
    ignore_changes = [name]
  }
}

resource "aws_iam_role_policy_attachment" "cluster" {
  count = local.create_role ? 1 : 0

  role       = aws_iam_role.cluster[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_iam_role_policy" "secrets" {
  count = local.create_role ? 1 : 0

  name   = "encrypt-secrets"
  role   = aws_iam_role.cluster[0].name
  policy = jsonencode(local.secrets_policy)
}

locals {
  create_key  = coalesce(var.create_kms_key, var.kms_key_arn == null)
  kms_key_arn = local.create_key ? aws_kms_key.secrets[0].arn : var.kms_key_arn
}

resource "aws_kms_key" "secrets" {
  count = local.create_key ? 1 : 0

  region = var.region

  description             = "Kubernetes secrets of the EKS cluster ${var.cluster_name}"
  deletion_window_in_days = var.kms_deletion_window_days
  enable_key_rotation     = true

  tags = merge(var.tags, { Name = "${var.cluster_name}-secrets" })
}

resource "aws_kms_alias" "secrets" {
  count = local.create_key ? 1 : 0

  region = var.region

  name          = "alias/eks/${var.cluster_name}"
  target_key_id = aws_kms_key.secrets[0].key_id
}

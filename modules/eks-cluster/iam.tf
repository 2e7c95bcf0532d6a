locals {
  role_arn = var.iam_role_arn != null ? var.iam_role_arn : aws_iam_role.cluster[0].arn

  cluster_trust = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EKSControlPlane"
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      Action    = "sts:AssumeRole"
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
  count = var.iam_role_arn == null ? 1 : 0

  name                 = local.role_name
  description          = "Control plane of the EKS cluster ${var.cluster_name}"
  assume_role_policy   = jsonencode(local.cluster_trust)
  permissions_boundary = var.permissions_boundary_arn

  tags = var.tags

  lifecycle {
    # A role of an earlier release has no region in its name, and keeps it.
    ignore_changes = [name]
  }
}

resource "aws_iam_role_policy_attachment" "cluster" {
  count = var.iam_role_arn == null ? 1 : 0

  role       = aws_iam_role.cluster[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_iam_role_policy" "secrets" {
  count = var.iam_role_arn == null ? 1 : 0

  name   = "encrypt-secrets"
  role   = aws_iam_role.cluster[0].name
  policy = jsonencode(local.secrets_policy)
}

locals {
  kms_key_arn = var.kms_key_arn != null ? var.kms_key_arn : aws_kms_key.secrets[0].arn
}

resource "aws_kms_key" "secrets" {
  count = var.kms_key_arn == null ? 1 : 0

  region = var.region

  description             = "Kubernetes secrets of the EKS cluster ${var.cluster_name}"
  deletion_window_in_days = var.kms_deletion_window_days
  enable_key_rotation     = true

  tags = merge(var.tags, { Name = "${var.cluster_name}-secrets" })
}

resource "aws_kms_alias" "secrets" {
  count = var.kms_key_arn == null ? 1 : 0

  region = var.region

  name          = "alias/eks/${var.cluster_name}"
  target_key_id = aws_kms_key.secrets[0].key_id
}

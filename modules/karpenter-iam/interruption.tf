locals {
  events = !var.interruption_queue ? {} : {
    HealthEvent = {
      description = "AWS Health events"
      pattern     = { source = ["aws.health"], detail-type = ["AWS Health Event"] }
    }
    SpotInterruption = {
      description = "Spot interruption warnings"
      pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    }
    Rebalance = {
      description = "Rebalance recommendations"
      pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    }
    InstanceStateChange = {
      description = "Changes of the state of instances"
      pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
    }
    CapacityReservationInterruption = {
      description = "Interruption warnings of capacity reservations"
      pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"] }
    }
  }

  queue_policy = {
    Version = "2012-10-17"
    Id      = "EC2InterruptionPolicy"
    Statement = [
      {
        Sid       = "AllowEvents"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = one(aws_sqs_queue.this[*].arn)
        Condition = {
          ArnEquals = { "aws:SourceArn" = sort([for rule in aws_cloudwatch_event_rule.this : rule.arn]) }
        }
      },
      {
        Sid       = "DenyHTTP"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = one(aws_sqs_queue.this[*].arn)
        Condition = {
          Bool = { "aws:SecureTransport" = "false" }
        }
      },
    ]
  }
}

resource "aws_sqs_queue" "this" {
  count = var.interruption_queue ? 1 : 0

  region = var.region

  name = coalesce(var.queue_name, "Karpenter-${local.short_name}")
  # An interruption notice is two minutes long, so messages expire after five.
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true

  tags = var.tags
}

resource "aws_sqs_queue_policy" "this" {
  count = var.interruption_queue ? 1 : 0

  region = var.region

  queue_url = aws_sqs_queue.this[0].url
  policy    = jsonencode(local.queue_policy)
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.events

  region = var.region

  # The provider appends 26 characters, and EventBridge allows 64.
  name_prefix   = "${substr("Karpenter${each.key}", 0, 37)}-"
  description   = "${each.value.description}, for Karpenter in the EKS cluster ${var.cluster_name}"
  event_pattern = jsonencode(each.value.pattern)

  tags = merge(var.tags, { ClusterName = var.cluster_name })
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.events

  region = var.region

  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "KarpenterInterruptionQueue"
  arn       = aws_sqs_queue.this[0].arn
}

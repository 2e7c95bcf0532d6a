output "node_group_name" {
  description = "Name of the node group, with its suffix."
  value       = aws_eks_node_group.this.node_group_name
}

output "node_group_arn" {
  description = "ARN of the node group."
  value       = aws_eks_node_group.this.arn
}

output "release_version" {
  description = "Release of the nodes' image."
  value       = aws_eks_node_group.this.release_version
}

output "provider_id_list" {
  description = "Provider ids of the nodes, as they were when the module was last applied: aws:///ZONE/INSTANCE."
  value = flatten([
    for i, instances in data.aws_instances.this : [
      for id in sort(instances.ids) : "aws:///${data.aws_subnet.this[i].availability_zone}/${id}"
    ]
  ])
}

output "node_selector" {
  description = "Labels of the nodes in the cluster that no other nodes have."
  value       = { "eks.amazonaws.com/nodegroup" = aws_eks_node_group.this.node_group_name }
}

output "autoscaling_group_names" {
  description = "Names of the Auto Scaling groups behind the node group."
  value       = flatten([for r in aws_eks_node_group.this.resources : [for g in r.autoscaling_groups : g.name]])
}

output "desired_size" {
  description = "Desired number of nodes."
  value       = aws_eks_node_group.this.scaling_config[0].desired_size
}

output "node_role_arn" {
  description = "ARN of the nodes' role."
  value       = local.node_role_arn
}

output "node_role_name" {
  description = "Name of the nodes' role."
  value       = basename(local.node_role_arn)
}

output "launch_template_id" {
  description = "Id of the launch template."
  value       = aws_launch_template.this.id
}

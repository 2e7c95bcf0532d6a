package account

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

// instances returns the instances in the VPCs of a run, also those of Karpenter.
func (a *Account) instances(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{in, filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, reservation := range out.Reservations {
			for _, instance := range reservation.Instances {
				found = append(found, resource{"instance " + *instance.InstanceId, calling(a.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{*instance.InstanceId}})})
			}
		}
		return found, nil
	})
}

// interfaces returns the network interfaces that nothing uses any more. Others end with
// their owner.
func (a *Account) interfaces(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{in, filter("status", "available")}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, each := range out.NetworkInterfaces {
			found = append(found, resource{"network interface " + *each.NetworkInterfaceId, calling(a.ec2.DeleteNetworkInterface, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: each.NetworkInterfaceId})})
		}
		return found, nil
	})
}

// securityGroups returns the security groups of the VPCs. Groups that refer to each other
// are deleted without their rules.
func (a *Account) securityGroups(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, group := range out.SecurityGroups {
			if aws.ToString(group.GroupName) == "default" {
				continue
			}
			found = append(found, resource{"security group " + *group.GroupId, func(ctx context.Context) error {
				if len(group.IpPermissions) > 0 {
					if _, err := a.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: group.GroupId, IpPermissions: group.IpPermissions}); err != nil && !isGone(err) {
						return err
					}
				}
				_, err := a.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: group.GroupId})
				return err
			}})
		}
		return found, nil
	})
}

func (a *Account) launchTemplates(ctx context.Context, run Run) ([]resource, error) {
	found := map[string]resource{}
	for _, tag := range []types.Filter{filter("tag:"+TagKey, run.ID), filter("tag:eks:eks-cluster-name", run.Cluster()), filter("tag:karpenter.k8s.aws/cluster", run.Cluster())} {
		out, err := a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{tag}})
		if err != nil {
			return nil, fmt.Errorf("listing launch templates: %w", err)
		}
		for _, template := range out.LaunchTemplates {
			found[*template.LaunchTemplateId] = resource{"launch template " + *template.LaunchTemplateId, calling(a.ec2.DeleteLaunchTemplate, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: template.LaunchTemplateId})}
		}
	}
	return sorted(slices.Collect(maps.Values(found))), nil
}

// volumes returns the volumes of nodes and of PersistentVolumes.
func (a *Account) volumes(ctx context.Context, run Run) ([]resource, error) {
	found := map[string]resource{}
	for _, tag := range []types.Filter{filter("tag:"+TagKey, run.ID), filter("tag-key", "kubernetes.io/cluster/"+run.Cluster()), filter("tag:KubernetesCluster", run.Cluster())} {
		out, err := a.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{tag}})
		if err != nil {
			return nil, fmt.Errorf("listing volumes: %w", err)
		}
		for _, volume := range out.Volumes {
			found[*volume.VolumeId] = resource{"volume " + *volume.VolumeId, calling(a.ec2.DeleteVolume, &ec2.DeleteVolumeInput{VolumeId: volume.VolumeId})}
		}
	}
	return sorted(slices.Collect(maps.Values(found))), nil
}

// loadBalancers returns the load balancers in the VPCs of a run.
func (a *Account) loadBalancers(ctx context.Context, run Run) ([]resource, error) {
	ids, err := a.vpcIDs(ctx, run)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	balancers, err := a.elbV2.DescribeLoadBalancers(ctx, &elasticloadbalancingv2.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, fmt.Errorf("listing load balancers: %w", err)
	}
	classic, err := a.elb.DescribeLoadBalancers(ctx, &elasticloadbalancing.DescribeLoadBalancersInput{})
	if err != nil {
		return nil, fmt.Errorf("listing classic load balancers: %w", err)
	}
	var found []resource
	for _, balancer := range balancers.LoadBalancers {
		if slices.Contains(ids, aws.ToString(balancer.VpcId)) {
			found = append(found, resource{"load balancer " + *balancer.LoadBalancerArn, calling(a.elbV2.DeleteLoadBalancer, &elasticloadbalancingv2.DeleteLoadBalancerInput{LoadBalancerArn: balancer.LoadBalancerArn})})
		}
	}
	for _, balancer := range classic.LoadBalancerDescriptions {
		if slices.Contains(ids, aws.ToString(balancer.VPCId)) {
			found = append(found, resource{"classic load balancer " + *balancer.LoadBalancerName, calling(a.elb.DeleteLoadBalancer, &elasticloadbalancing.DeleteLoadBalancerInput{LoadBalancerName: balancer.LoadBalancerName})})
		}
	}
	return sorted(found), nil
}

// targetGroups returns the target groups in the VPCs of a run. They stay when their load
// balancer is deleted.
func (a *Account) targetGroups(ctx context.Context, run Run) ([]resource, error) {
	ids, err := a.vpcIDs(ctx, run)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	out, err := a.elbV2.DescribeTargetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{})
	if err != nil {
		return nil, fmt.Errorf("listing target groups: %w", err)
	}
	var found []resource
	for _, group := range out.TargetGroups {
		if slices.Contains(ids, aws.ToString(group.VpcId)) {
			found = append(found, resource{"target group " + *group.TargetGroupArn, calling(a.elbV2.DeleteTargetGroup, &elasticloadbalancingv2.DeleteTargetGroupInput{TargetGroupArn: group.TargetGroupArn})})
		}
	}
	return sorted(found), nil
}

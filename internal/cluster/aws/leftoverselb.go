package aws

import (
	"context"
	"maps"
	"slices"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

// tagsPerCall is the number of load balancers whose tags one call returns.
const tagsPerCall = 20

// balancer is a load balancer or a target group.
type balancer struct {
	// id is the ARN, or the name of a classic load balancer, which is unique.
	id, name, vpc string
}

// balancerKind is a kind of resources of Elastic Load Balancing, with its calls.
type balancerKind struct {
	text string
	list func(ctx context.Context) ([]balancer, error)
	// tags returns the tags of resources by their id.
	tags   func(ctx context.Context, ids []string) (map[string]map[string]string, error)
	delete func(ctx context.Context, id string) error
}

// balancers are application and network load balancers.
func (c Config) balancers() balancerKind {
	client := c.elbV2()
	return balancerKind{
		text: "load balancer",
		list: func(ctx context.Context) ([]balancer, error) {
			return list(ctx, "elasticloadbalancing:DescribeLoadBalancers", elasticloadbalancingv2.NewDescribeLoadBalancersPaginator(client, nil), func(page *elasticloadbalancingv2.DescribeLoadBalancersOutput) (all []balancer) {
				for _, each := range page.LoadBalancers {
					all = append(all, balancer{sdkaws.ToString(each.LoadBalancerArn), sdkaws.ToString(each.LoadBalancerName), sdkaws.ToString(each.VpcId)})
				}
				return all
			})
		},
		tags: tagsByARN(client),
		delete: func(ctx context.Context, id string) error {
			_, err := client.DeleteLoadBalancer(ctx, &elasticloadbalancingv2.DeleteLoadBalancerInput{LoadBalancerArn: &id})
			return explain("elasticloadbalancing:DeleteLoadBalancer", err)
		},
	}
}

// targetGroups remain after the deletion of their load balancer.
func (c Config) targetGroups() balancerKind {
	client := c.elbV2()
	return balancerKind{
		text: "target group",
		list: func(ctx context.Context) ([]balancer, error) {
			return list(ctx, "elasticloadbalancing:DescribeTargetGroups", elasticloadbalancingv2.NewDescribeTargetGroupsPaginator(client, nil), func(page *elasticloadbalancingv2.DescribeTargetGroupsOutput) (all []balancer) {
				for _, each := range page.TargetGroups {
					all = append(all, balancer{sdkaws.ToString(each.TargetGroupArn), sdkaws.ToString(each.TargetGroupName), sdkaws.ToString(each.VpcId)})
				}
				return all
			})
		},
		tags: tagsByARN(client),
		delete: func(ctx context.Context, id string) error {
			_, err := client.DeleteTargetGroup(ctx, &elasticloadbalancingv2.DeleteTargetGroupInput{TargetGroupArn: &id})
			return explain("elasticloadbalancing:DeleteTargetGroup", err)
		},
	}
}

// tagsByARN returns the call for the tags of load balancers and target groups.
func tagsByARN(client *elasticloadbalancingv2.Client) func(context.Context, []string) (map[string]map[string]string, error) {
	return func(ctx context.Context, ids []string) (map[string]map[string]string, error) {
		answer, err := client.DescribeTags(ctx, &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: ids})
		if err != nil {
			return nil, explain("elasticloadbalancing:DescribeTags", err)
		}
		all := map[string]map[string]string{}
		for _, each := range answer.TagDescriptions {
			tags := map[string]string{}
			for _, tag := range each.Tags {
				tags[sdkaws.ToString(tag.Key)] = sdkaws.ToString(tag.Value)
			}
			all[sdkaws.ToString(each.ResourceArn)] = tags
		}
		return all, nil
	}
}

// classicBalancers are classic load balancers.
func (c Config) classicBalancers() balancerKind {
	client := c.elb()
	return balancerKind{
		text: "classic load balancer",
		list: func(ctx context.Context) ([]balancer, error) {
			return list(ctx, "elasticloadbalancing:DescribeLoadBalancers", elb.NewDescribeLoadBalancersPaginator(client, nil), func(page *elb.DescribeLoadBalancersOutput) (all []balancer) {
				for _, each := range page.LoadBalancerDescriptions {
					name := sdkaws.ToString(each.LoadBalancerName)
					all = append(all, balancer{name, name, sdkaws.ToString(each.VPCId)})
				}
				return all
			})
		},
		tags: func(ctx context.Context, ids []string) (map[string]map[string]string, error) {
			answer, err := client.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: ids})
			if err != nil {
				return nil, explain("elasticloadbalancing:DescribeTags", err)
			}
			all := map[string]map[string]string{}
			for _, each := range answer.TagDescriptions {
				tags := map[string]string{}
				for _, tag := range each.Tags {
					tags[sdkaws.ToString(tag.Key)] = sdkaws.ToString(tag.Value)
				}
				all[sdkaws.ToString(each.LoadBalancerName)] = tags
			}
			return all, nil
		},
		delete: func(ctx context.Context, id string) error {
			_, err := client.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: &id})
			return explain("elasticloadbalancing:DeleteLoadBalancer", err)
		},
	}
}

// balancersOf returns a lookup of a kind.
func (s *sweep) balancersOf(kind balancerKind) func(context.Context) ([]leftover, error) {
	return func(ctx context.Context) ([]leftover, error) {
		all, err := kind.list(ctx)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(b balancer) bool { return !s.inVPC(b.vpc) })
		var found []leftover
		for some := range slices.Chunk(all, tagsPerCall) {
			tags, err := kind.tagsOf(ctx, some)
			if err != nil {
				return nil, err
			}
			for _, each := range some {
				if !s.createdByBalancer(tags[each.id]) || s.isManaged(each.id) || s.isManaged(each.name) {
					continue
				}
				found = append(found, leftover{kind.text + " " + each.name, func(ctx context.Context) error { return kind.delete(ctx, each.id) }})
			}
		}
		return found, nil
	}
}

// tagsOf returns the tags of resources by their id. Some may have been deleted meanwhile, for which
// the call fails.
func (k balancerKind) tagsOf(ctx context.Context, some []balancer) (map[string]map[string]string, error) {
	var ids []string
	for _, each := range some {
		ids = append(ids, each.id)
	}
	all, err := k.tags(ctx, ids)
	if KindOf(err) != KindNotFound {
		return all, err
	}
	all = map[string]map[string]string{}
	if len(ids) == 1 {
		return all, nil
	}
	for _, each := range some {
		tags, err := k.tagsOf(ctx, []balancer{each})
		if err != nil {
			return nil, err
		}
		maps.Copy(all, tags)
	}
	return all, nil
}

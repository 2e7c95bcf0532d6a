package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// tagsPerCall is the number of load balancers whose tags one call returns.
const tagsPerCall = 20

// balancerKind is a kind of resources of Elastic Load Balancing.
type balancerKind struct {
	text    string
	service plainService
	// list and delete are actions. ids is the parameter of DescribeTags, id that of delete.
	list, delete string
	ids, id      string
}

var (
	// balancers are application and network load balancers.
	balancers = balancerKind{"load balancer", loadBalancing, "DescribeLoadBalancers", "DeleteLoadBalancer", "ResourceArns", "LoadBalancerArn"}
	// targetGroups remain after the deletion of their load balancer.
	targetGroups     = balancerKind{"target group", loadBalancing, "DescribeTargetGroups", "DeleteTargetGroup", "ResourceArns", "TargetGroupArn"}
	classicBalancers = balancerKind{"classic load balancer", classicLoadBalancing, "DescribeLoadBalancers", "DeleteLoadBalancer", "LoadBalancerNames", "LoadBalancerName"}
)

// balancer is a load balancer or a target group.
type balancer struct {
	Name            string `xml:"LoadBalancerName"`
	TargetGroupName string `xml:"TargetGroupName"`
	ARN             string `xml:"LoadBalancerArn"`
	TargetGroupARN  string `xml:"TargetGroupArn"`
	VPC             string `xml:"VpcId"`
	ClassicVPC      string `xml:"VPCId"`
}

func (b balancer) name() string { return cmp.Or(b.Name, b.TargetGroupName) }

// id returns the ARN, or the name of a classic load balancer, which is unique.
func (b balancer) id() string { return cmp.Or(b.ARN, b.TargetGroupARN, b.Name) }

// balancersOf returns a lookup of a kind.
func (s *sweep) balancersOf(kind balancerKind) func(context.Context) ([]leftover, error) {
	return func(ctx context.Context) ([]leftover, error) {
		all, err := s.listBalancers(ctx, kind)
		if err != nil {
			return nil, err
		}
		var found []leftover
		for some := range slices.Chunk(all, tagsPerCall) {
			tags, err := s.balancerTags(ctx, kind, some)
			if err != nil {
				return nil, err
			}
			for _, each := range some {
				if !s.createdByBalancer(tags[each.id()]) || s.isManaged(each.id()) || s.isManaged(each.name()) {
					continue
				}
				found = append(found, leftover{kind.text + " " + each.name(), func(ctx context.Context) error {
					return s.cfg.query(ctx, kind.service, kind.delete, url.Values{kind.id: {each.id()}}, nil)
				}})
			}
		}
		return found, nil
	}
}

// listBalancers returns all resources of a kind in the VPC.
func (s *sweep) listBalancers(ctx context.Context, kind balancerKind) ([]balancer, error) {
	var all []balancer
	for marker := ""; ; {
		form := url.Values{}
		if marker != "" {
			form.Set("Marker", marker)
		}
		var page struct {
			Balancers    []balancer `xml:"DescribeLoadBalancersResult>LoadBalancers>member"`
			Classic      []balancer `xml:"DescribeLoadBalancersResult>LoadBalancerDescriptions>member"`
			TargetGroups []balancer `xml:"DescribeTargetGroupsResult>TargetGroups>member"`
			Next         string     `xml:"DescribeLoadBalancersResult>NextMarker"`
			NextGroup    string     `xml:"DescribeTargetGroupsResult>NextMarker"`
		}
		if err := s.cfg.query(ctx, kind.service, kind.list, form, &page); err != nil {
			return nil, err
		}
		for _, each := range slices.Concat(page.Balancers, page.Classic, page.TargetGroups) {
			if s.inVPC(cmp.Or(each.VPC, each.ClassicVPC)) {
				all = append(all, each)
			}
		}
		if marker = cmp.Or(page.Next, page.NextGroup); marker == "" {
			return all, nil
		}
	}
}

// balancerTags returns the tags of resources by their id.
func (s *sweep) balancerTags(ctx context.Context, kind balancerKind, of []balancer) (map[string]map[string]string, error) {
	form := url.Values{}
	for i, each := range of {
		form.Set(fmt.Sprintf("%s.member.%d", kind.ids, i+1), each.id())
	}
	var page struct {
		Items []struct {
			ARN  string `xml:"ResourceArn"`
			Name string `xml:"LoadBalancerName"`
			Tags []struct {
				Key   string `xml:"Key"`
				Value string `xml:"Value"`
			} `xml:"Tags>member"`
		} `xml:"DescribeTagsResult>TagDescriptions>member"`
	}
	all := map[string]map[string]string{}
	err := s.cfg.query(ctx, kind.service, "DescribeTags", form, &page)
	if KindOf(err) == KindNotFound {
		return all, s.eachTags(ctx, kind, of, all)
	}
	if err != nil {
		return nil, err
	}
	for _, item := range page.Items {
		tags := map[string]string{}
		for _, tag := range item.Tags {
			tags[tag.Key] = tag.Value
		}
		all[cmp.Or(item.ARN, item.Name)] = tags
	}
	return all, nil
}

// eachTags adds the tags of resources of which some have been deleted meanwhile.
func (s *sweep) eachTags(ctx context.Context, kind balancerKind, of []balancer, into map[string]map[string]string) error {
	if len(of) == 1 {
		return nil
	}
	for _, each := range of {
		tags, err := s.balancerTags(ctx, kind, []balancer{each})
		if err != nil {
			return err
		}
		maps.Copy(into, tags)
	}
	return nil
}

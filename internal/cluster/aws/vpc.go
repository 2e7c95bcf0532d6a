package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	// clusterTagPrefix is the prefix of the tag of resources of a cluster.
	clusterTagPrefix = "kubernetes.io/cluster/"
	// internalRoleTag marks the subnets of internal load balancers.
	internalRoleTag = "kubernetes.io/role/internal-elb"
	// minZones is the number of zones that EKS requires.
	minZones = 2
)

// VPC is an existing network.
type VPC struct {
	ID   string
	CIDR string
	// Subnets are sorted by zone, then by id.
	Subnets []Subnet
}

// Subnet is a subnet of a VPC.
type Subnet struct {
	ID   string
	Zone string
	CIDR string
	// Public reports whether its route table has a route to an internet gateway.
	Public bool
}

// Zones returns the zones of the subnets, sorted.
func (v VPC) Zones() []string {
	zones := map[string]bool{}
	for _, subnet := range v.Subnets {
		zones[subnet.Zone] = true
	}
	return slices.Sorted(maps.Keys(zones))
}

// LookUpVPC returns an existing VPC with the subnets for a cluster, in a stable
// order. They are the subnets of subnetIDs or, if it is empty, those of the first
// rule that selects any:
//
//  1. subnets tagged kubernetes.io/cluster/<cluster>: owned or shared
//  2. subnets tagged kubernetes.io/role/internal-elb: 1
//  3. private subnets: their route table has no route to an internet gateway
//  4. all subnets
//
// Rules 3 and 4 exclude subnets on Outposts and in local or wavelength zones, where
// EKS has no control plane. Subnets in fewer than two zones are an error, because
// EKS requires two.
func LookUpVPC(ctx context.Context, cfg Config, vpcID, cluster string, subnetIDs []string) (VPC, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := cfg.ec2()
	vpc, err := describeVPC(ctx, client, cfg.Region(), vpcID)
	if err != nil {
		return VPC{}, err
	}
	filter := types.Filter{Name: new("vpc-id"), Values: []string{vpcID}}
	if len(subnetIDs) > 0 {
		// Without the VPC, to distinguish subnets of another VPC from missing ones.
		filter = types.Filter{Name: new("subnet-id"), Values: subnetIDs}
	}
	found, err := list(ctx, "looking up subnets (ec2:DescribeSubnets)",
		ec2.NewDescribeSubnetsPaginator(client, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter}}),
		func(page *ec2.DescribeSubnetsOutput) []types.Subnet { return page.Subnets })
	if err != nil {
		return VPC{}, err
	}
	tables, err := list(ctx, "looking up route tables (ec2:DescribeRouteTables)", ec2.NewDescribeRouteTablesPaginator(client, &ec2.DescribeRouteTablesInput{
		Filters: []types.Filter{{Name: new("vpc-id"), Values: []string{vpcID}}},
	}), func(page *ec2.DescribeRouteTablesOutput) []types.RouteTable { return page.RouteTables })
	if err != nil {
		return VPC{}, err
	}
	s := selector{vpc: vpcID, cluster: cluster, region: cfg.Region(), found: found, public: publicSubnets(found, tables)}
	if vpc.Subnets, err = s.subnets(subnetIDs); err != nil {
		return VPC{}, err
	}
	return vpc, nil
}

func describeVPC(ctx context.Context, client *ec2.Client, region, id string) (VPC, error) {
	// With a filter, a VPC that does not exist is an empty list and not an error.
	found, err := list(ctx, "looking up VPC "+id+" (ec2:DescribeVpcs)", ec2.NewDescribeVpcsPaginator(client, &ec2.DescribeVpcsInput{
		Filters: []types.Filter{{Name: new("vpc-id"), Values: []string{id}}},
	}), func(page *ec2.DescribeVpcsOutput) []types.Vpc { return page.Vpcs })
	if err != nil {
		return VPC{}, err
	}
	for _, vpc := range found {
		if sdkaws.ToString(vpc.VpcId) == id {
			return VPC{ID: id, CIDR: sdkaws.ToString(vpc.CidrBlock)}, nil
		}
	}
	return VPC{}, &Error{
		Kind: KindNotFound,
		Text: fmt.Sprintf("VPC %s does not exist in %s for these credentials: check existingVpcId, region and the account", id, region),
	}
}

// publicSubnets returns the ids of the subnets that have a route to an internet
// gateway. A subnet without a route table of its own uses the main one of the VPC.
func publicSubnets(subnets []types.Subnet, tables []types.RouteTable) map[string]bool {
	own := map[string]bool{}
	public := map[string]bool{}
	mainIsPublic := false
	for _, table := range tables {
		toInternet := slices.ContainsFunc(table.Routes, func(route types.Route) bool {
			return strings.HasPrefix(sdkaws.ToString(route.GatewayId), "igw-") && route.State != types.RouteStateBlackhole
		})
		for _, association := range table.Associations {
			if isDetached(association.AssociationState) {
				continue
			}
			if sdkaws.ToBool(association.Main) {
				mainIsPublic = toInternet
			}
			if id := sdkaws.ToString(association.SubnetId); id != "" {
				own[id] = true
				public[id] = toInternet
			}
		}
	}
	for _, subnet := range subnets {
		if id := sdkaws.ToString(subnet.SubnetId); !own[id] {
			public[id] = mainIsPublic
		}
	}
	return public
}

func isDetached(state *types.RouteTableAssociationState) bool {
	return state != nil && slices.Contains([]types.RouteTableAssociationStateCode{
		types.RouteTableAssociationStateCodeDisassociating, types.RouteTableAssociationStateCodeDisassociated,
		types.RouteTableAssociationStateCodeFailed,
	}, state.State)
}

// selector selects the subnets for a cluster from those that were found.
type selector struct {
	vpc, cluster, region string
	found                []types.Subnet
	public               map[string]bool
}

func (s *selector) subnets(named []string) ([]Subnet, error) {
	selected, which := s.found, "those in existingSubnetIds"
	if len(named) > 0 {
		if err := s.checkNamed(named); err != nil {
			return nil, err
		}
	} else {
		selected, which = s.selectUnnamed()
	}
	result := make([]Subnet, 0, len(selected))
	for _, subnet := range selected {
		id := sdkaws.ToString(subnet.SubnetId)
		result = append(result, Subnet{
			ID: id, Zone: sdkaws.ToString(subnet.AvailabilityZone), CIDR: sdkaws.ToString(subnet.CidrBlock), Public: s.public[id],
		})
	}
	slices.SortFunc(result, func(a, b Subnet) int { return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ID, b.ID)) })
	if zones := (VPC{Subnets: result}).Zones(); len(zones) < minZones {
		return nil, s.tooFewZones(which, result)
	}
	return result, nil
}

// selectUnnamed returns the subnets to use if none are named, and a description of
// the rule that selected them. Load balancers in public subnets find them by their tags,
// so a cluster needs only the private ones, unless they are in too few zones.
func (s *selector) selectUnnamed() ([]types.Subnet, string) {
	tag := clusterTagPrefix + s.cluster
	rules := []struct {
		which   string
		matches func(types.Subnet) bool
	}{
		{"those tagged " + tag, func(subnet types.Subnet) bool { return hasTag(subnet, tag, "owned", "shared") }},
		{"those tagged " + internalRoleTag, func(subnet types.Subnet) bool { return hasTag(subnet, internalRoleTag, "1", "") }},
		{"all", func(types.Subnet) bool { return true }},
	}
	usable := filter(s.found, s.isUsable)
	for _, rule := range rules {
		selected := filter(usable, rule.matches)
		if private := filter(selected, s.isPrivate); countZones(private) >= minZones {
			return private, rule.which + " that are private"
		}
		if len(selected) > 0 {
			return selected, rule.which
		}
	}
	return nil, ""
}

func (s *selector) isPrivate(subnet types.Subnet) bool {
	return !s.public[sdkaws.ToString(subnet.SubnetId)]
}

func countZones(subnets []types.Subnet) int {
	zones := map[string]bool{}
	for _, subnet := range subnets {
		zones[sdkaws.ToString(subnet.AvailabilityZone)] = true
	}
	return len(zones)
}

// zonesWithoutEKS are the IDs of the zones in which EKS creates no control plane.
var zonesWithoutEKS = []string{"use1-az3", "usw1-az2", "cac1-az3"}

// isUsable reports whether EKS accepts a subnet for a control plane.
func (s *selector) isUsable(subnet types.Subnet) bool {
	return s.isRegional(subnet) && !slices.Contains(zonesWithoutEKS, sdkaws.ToString(subnet.AvailabilityZoneId))
}

func filter(subnets []types.Subnet, matches func(types.Subnet) bool) []types.Subnet {
	var kept []types.Subnet
	for _, subnet := range subnets {
		if matches(subnet) {
			kept = append(kept, subnet)
		}
	}
	return kept
}

func hasTag(subnet types.Subnet, key string, values ...string) bool {
	return slices.ContainsFunc(subnet.Tags, func(tag types.Tag) bool {
		return sdkaws.ToString(tag.Key) == key && slices.Contains(values, sdkaws.ToString(tag.Value))
	})
}

// isRegional reports whether a subnet is in an availability zone, whose name is that
// of the region followed by one letter, and not on an Outpost.
func (s *selector) isRegional(subnet types.Subnet) bool {
	letter, inRegion := strings.CutPrefix(sdkaws.ToString(subnet.AvailabilityZone), s.region)
	return inRegion && len(letter) == 1 && sdkaws.ToString(subnet.OutpostArn) == ""
}

func (s *selector) checkNamed(named []string) error {
	vpcs := map[string]string{}
	for _, subnet := range s.found {
		vpcs[sdkaws.ToString(subnet.SubnetId)] = sdkaws.ToString(subnet.VpcId)
	}
	var wrong []string
	for _, id := range named {
		switch vpc, found := vpcs[id]; {
		case !found:
			wrong = append(wrong, id+" does not exist")
		case vpc != s.vpc:
			wrong = append(wrong, id+" is in "+vpc)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return invalid("not every subnet of existingSubnetIds is in VPC %s: %s", s.vpc, strings.Join(wrong, ", "))
}

func (s *selector) tooFewZones(which string, subnets []Subnet) error {
	if len(subnets) == 0 {
		return invalid("VPC %s has no subnet that EKS can use, and EKS needs subnets in at least two zones: add some, or use another VPC", s.vpc)
	}
	list := make([]string, 0, len(subnets))
	for _, subnet := range subnets {
		list = append(list, fmt.Sprintf("%s (%s)", subnet.ID, subnet.Zone))
	}
	return invalid("EKS needs subnets in at least two zones, but VPC %s has only %s (%s): tag more subnets with %s=shared, or list them in existingSubnetIds",
		s.vpc, strings.Join(list, ", "), which, clusterTagPrefix+s.cluster)
}

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
	// clusterTagPrefix begins the tag of what belongs to a cluster.
	clusterTagPrefix = "kubernetes.io/cluster/"
	// internalRoleTag marks subnets that are meant for a cluster's inside.
	internalRoleTag = "kubernetes.io/role/internal-elb"
	// neededZones is what EKS asks for.
	neededZones = 2
)

// VPC is an existing network.
type VPC struct {
	ID   string
	CIDR string
	// Subnets are sorted by zone, then by id.
	Subnets []Subnet
}

// Subnet is a part of a VPC in one zone.
type Subnet struct {
	ID   string
	Zone string
	CIDR string
	// Public reports whether its route table leads to an internet gateway.
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

// LookUpVPC returns an existing VPC with the subnets that a cluster is to use,
// in the same order each time. They are those that are named or, if none is
// named, the first of these that there are:
//
//  1. those tagged kubernetes.io/cluster/<cluster>: owned or shared
//  2. those tagged kubernetes.io/role/internal-elb: 1
//  3. the private ones: their route table leads to no internet gateway
//  4. all
//
// The last two leave out subnets on Outposts and in local or wavelength zones,
// where EKS has no control plane. Fewer than two zones are an error, because
// EKS asks for two.
func LookUpVPC(ctx context.Context, cfg Config, vpcID, cluster string, subnetIDs []string) (VPC, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := cfg.ec2()
	vpc, err := describeVPC(ctx, client, cfg.Region(), vpcID)
	if err != nil {
		return VPC{}, err
	}
	filter := types.Filter{Name: new("vpc-id"), Values: []string{vpcID}}
	if len(subnetIDs) > 0 {
		// Without the VPC, to tell a subnet of another one from one that does not exist.
		filter = types.Filter{Name: new("subnet-id"), Values: subnetIDs}
	}
	found, err := describeSubnets(ctx, client, filter)
	if err != nil {
		return VPC{}, err
	}
	tables, err := describeRouteTables(ctx, client, vpcID)
	if err != nil {
		return VPC{}, err
	}
	choice := choice{vpc: vpcID, cluster: cluster, region: cfg.Region(), found: found, public: publicSubnets(found, tables)}
	if vpc.Subnets, err = choice.subnets(subnetIDs); err != nil {
		return VPC{}, err
	}
	return vpc, nil
}

func describeVPC(ctx context.Context, client *ec2.Client, region, id string) (VPC, error) {
	// A filter answers with nothing for what does not exist.
	pages := ec2.NewDescribeVpcsPaginator(client, &ec2.DescribeVpcsInput{
		Filters: []types.Filter{{Name: new("vpc-id"), Values: []string{id}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return VPC{}, explain("looking up VPC "+id+" (ec2:DescribeVpcs)", err)
		}
		for _, vpc := range page.Vpcs {
			if sdkaws.ToString(vpc.VpcId) == id {
				return VPC{ID: id, CIDR: sdkaws.ToString(vpc.CidrBlock)}, nil
			}
		}
	}
	return VPC{}, &Error{
		Kind: KindNotFound,
		Text: fmt.Sprintf("VPC %s does not exist in %s for these credentials: check existingVpcId, region and the account", id, region),
	}
}

func describeSubnets(ctx context.Context, client *ec2.Client, filter types.Filter) ([]types.Subnet, error) {
	var all []types.Subnet
	pages := ec2.NewDescribeSubnetsPaginator(client, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("looking up subnets (ec2:DescribeSubnets)", err)
		}
		all = append(all, page.Subnets...)
	}
	return all, nil
}

func describeRouteTables(ctx context.Context, client *ec2.Client, vpcID string) ([]types.RouteTable, error) {
	var all []types.RouteTable
	pages := ec2.NewDescribeRouteTablesPaginator(client, &ec2.DescribeRouteTablesInput{
		Filters: []types.Filter{{Name: new("vpc-id"), Values: []string{vpcID}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("looking up route tables (ec2:DescribeRouteTables)", err)
		}
		all = append(all, page.RouteTables...)
	}
	return all, nil
}

// publicSubnets tells which subnets have a way to the internet that leads in
// as well. A subnet without a route table of its own has the VPC's main one.
func publicSubnets(subnets []types.Subnet, tables []types.RouteTable) map[string]bool {
	own := map[string]bool{}
	public := map[string]bool{}
	mainIsPublic := false
	for _, table := range tables {
		toInternet := slices.ContainsFunc(table.Routes, func(route types.Route) bool {
			return strings.HasPrefix(sdkaws.ToString(route.GatewayId), "igw-") && route.State != types.RouteStateBlackhole
		})
		for _, association := range table.Associations {
			if gone(association.AssociationState) {
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

func gone(state *types.RouteTableAssociationState) bool {
	return state != nil && slices.Contains([]types.RouteTableAssociationStateCode{
		types.RouteTableAssociationStateCodeDisassociating, types.RouteTableAssociationStateCodeDisassociated,
		types.RouteTableAssociationStateCodeFailed,
	}, state.State)
}

// choice is between the subnets that were found.
type choice struct {
	vpc, cluster, region string
	found                []types.Subnet
	public               map[string]bool
}

func (c *choice) subnets(named []string) ([]Subnet, error) {
	chosen, which := c.found, "those that existingSubnetIds names"
	if len(named) > 0 {
		if err := c.checkNamed(named); err != nil {
			return nil, err
		}
	} else {
		chosen, which = c.choose()
	}
	result := make([]Subnet, 0, len(chosen))
	for _, subnet := range chosen {
		id := sdkaws.ToString(subnet.SubnetId)
		result = append(result, Subnet{
			ID: id, Zone: sdkaws.ToString(subnet.AvailabilityZone), CIDR: sdkaws.ToString(subnet.CidrBlock), Public: c.public[id],
		})
	}
	slices.SortFunc(result, func(a, b Subnet) int { return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ID, b.ID)) })
	if zones := (VPC{Subnets: result}).Zones(); len(zones) < neededZones {
		return nil, c.tooFewZones(which, result)
	}
	return result, nil
}

// choose returns the subnets to use if none are named, and how they were chosen.
func (c *choice) choose() ([]types.Subnet, string) {
	tag := clusterTagPrefix + c.cluster
	ways := []struct {
		which string
		take  func(types.Subnet) bool
	}{
		{"those tagged " + tag, func(s types.Subnet) bool { return tagged(s, tag, "owned", "shared") }},
		{"those tagged " + internalRoleTag, func(s types.Subnet) bool { return tagged(s, internalRoleTag, "1", "") }},
		{"the private ones", func(s types.Subnet) bool { return c.ordinary(s) && !c.public[sdkaws.ToString(s.SubnetId)] }},
	}
	for _, way := range ways {
		if chosen := keep(c.found, way.take); len(chosen) > 0 {
			return chosen, way.which
		}
	}
	return keep(c.found, c.ordinary), "all"
}

func keep(subnets []types.Subnet, take func(types.Subnet) bool) []types.Subnet {
	var kept []types.Subnet
	for _, subnet := range subnets {
		if take(subnet) {
			kept = append(kept, subnet)
		}
	}
	return kept
}

func tagged(subnet types.Subnet, key string, values ...string) bool {
	return slices.ContainsFunc(subnet.Tags, func(tag types.Tag) bool {
		return sdkaws.ToString(tag.Key) == key && slices.Contains(values, sdkaws.ToString(tag.Value))
	})
}

// ordinary reports whether a subnet is in a zone of the region itself, whose name
// is the region's and one letter more.
func (c *choice) ordinary(subnet types.Subnet) bool {
	letter, inRegion := strings.CutPrefix(sdkaws.ToString(subnet.AvailabilityZone), c.region)
	return inRegion && len(letter) == 1 && sdkaws.ToString(subnet.OutpostArn) == ""
}

func (c *choice) checkNamed(named []string) error {
	vpcs := map[string]string{}
	for _, subnet := range c.found {
		vpcs[sdkaws.ToString(subnet.SubnetId)] = sdkaws.ToString(subnet.VpcId)
	}
	var wrong []string
	for _, id := range named {
		switch vpc, found := vpcs[id]; {
		case !found:
			wrong = append(wrong, id+" does not exist")
		case vpc != c.vpc:
			wrong = append(wrong, id+" is in "+vpc)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return invalid("not every subnet of existingSubnetIds is in VPC %s: %s", c.vpc, strings.Join(wrong, ", "))
}

func (c *choice) tooFewZones(which string, subnets []Subnet) error {
	if len(subnets) == 0 {
		return invalid("VPC %s has no subnet that EKS can use, and EKS needs subnets in at least two zones: add some, or choose another VPC", c.vpc)
	}
	list := make([]string, 0, len(subnets))
	for _, subnet := range subnets {
		list = append(list, fmt.Sprintf("%s (%s)", subnet.ID, subnet.Zone))
	}
	return invalid("EKS needs subnets in at least two zones, but in VPC %s the choice (%s) is %s: tag more subnets with %s=shared, or name them in existingSubnetIds",
		c.vpc, which, strings.Join(list, ", "), clusterTagPrefix+c.cluster)
}

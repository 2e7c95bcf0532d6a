package account

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

func (r Run) tagged() []types.Filter { return []types.Filter{filter("tag:"+TagKey, r.ID)} }

// vpcIDs returns the VPCs of a run.
func (a *Account) vpcIDs(ctx context.Context, run Run) ([]string, error) {
	out, err := a.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: run.tagged()})
	if err != nil {
		return nil, fmt.Errorf("listing VPCs: %w", err)
	}
	var ids []string
	for _, vpc := range out.Vpcs {
		ids = append(ids, *vpc.VpcId)
	}
	return ids, nil
}

// inVPCs calls a function with a filter for what is in the VPCs of a run.
func (a *Account) inVPCs(ctx context.Context, run Run, name string, find func(types.Filter) ([]resource, error)) ([]resource, error) {
	ids, err := a.vpcIDs(ctx, run)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	found, err := find(filter(name, ids...))
	if err != nil {
		return nil, fmt.Errorf("listing by %s: %w", name, err)
	}
	return sorted(found), nil
}

func (a *Account) vpcs(ctx context.Context, run Run) ([]resource, error) {
	ids, err := a.vpcIDs(ctx, run)
	var found []resource
	for _, id := range ids {
		found = append(found, resource{"VPC " + id, calling(a.ec2.DeleteVpc, &ec2.DeleteVpcInput{VpcId: &id})})
	}
	return found, err
}

func (a *Account) subnets(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, s := range out.Subnets {
			found = append(found, resource{"subnet " + *s.SubnetId, calling(a.ec2.DeleteSubnet, &ec2.DeleteSubnetInput{SubnetId: s.SubnetId})})
		}
		return found, nil
	})
}

// routeTables returns the route tables of the VPCs, without the main ones, which end with
// their VPC.
func (a *Account) routeTables(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, table := range out.RouteTables {
			isMain := false
			for _, association := range table.Associations {
				isMain = isMain || aws.ToBool(association.Main)
			}
			if isMain {
				continue
			}
			found = append(found, resource{"route table " + *table.RouteTableId, func(ctx context.Context) error {
				for _, association := range table.Associations {
					if _, err := a.ec2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: association.RouteTableAssociationId}); err != nil {
						return err
					}
				}
				_, err := a.ec2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: table.RouteTableId})
				return err
			}})
		}
		return found, nil
	})
}

// internetGateways returns the internet gateways of the VPCs, and those of the run that are
// not attached any more.
func (a *Account) internetGateways(ctx context.Context, run Run) ([]resource, error) {
	find := func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, gateway := range out.InternetGateways {
			found = append(found, resource{"internet gateway " + *gateway.InternetGatewayId, func(ctx context.Context) error {
				for _, attachment := range gateway.Attachments {
					if _, err := a.ec2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: gateway.InternetGatewayId, VpcId: attachment.VpcId}); err != nil {
						return err
					}
				}
				_, err := a.ec2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: gateway.InternetGatewayId})
				return err
			}})
		}
		return found, nil
	}
	attached, err := a.inVPCs(ctx, run, "attachment.vpc-id", find)
	if err != nil {
		return nil, err
	}
	tagged, err := find(run.tagged()[0])
	if err != nil {
		return nil, fmt.Errorf("listing internet gateways: %w", err)
	}
	all := map[string]resource{}
	for _, r := range append(attached, tagged...) {
		all[r.text] = r
	}
	return sorted(slices.Collect(maps.Values(all))), nil
}

func (a *Account) egressGateways(ctx context.Context, run Run) ([]resource, error) {
	out, err := a.ec2.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{})
	if err != nil {
		return nil, fmt.Errorf("listing egress-only gateways: %w", err)
	}
	var found []resource
	for _, gateway := range out.EgressOnlyInternetGateways {
		if !run.has(gateway.Tags) {
			continue
		}
		found = append(found, resource{"egress-only gateway " + *gateway.EgressOnlyInternetGatewayId, calling(a.ec2.DeleteEgressOnlyInternetGateway, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: gateway.EgressOnlyInternetGatewayId})})
	}
	return sorted(found), nil
}

// has reports whether tags are those of the run.
func (r Run) has(tags []types.Tag) bool {
	for _, tag := range tags {
		if aws.ToString(tag.Key) == TagKey && aws.ToString(tag.Value) == r.ID {
			return true
		}
	}
	return false
}

func (a *Account) natGateways(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, gateway := range out.NatGateways {
			if gateway.State == types.NatGatewayStateDeleted {
				continue
			}
			found = append(found, resource{"NAT gateway " + *gateway.NatGatewayId, calling(a.ec2.DeleteNatGateway, &ec2.DeleteNatGatewayInput{NatGatewayId: gateway.NatGatewayId})})
		}
		return found, nil
	})
}

func (a *Account) endpoints(ctx context.Context, run Run) ([]resource, error) {
	return a.inVPCs(ctx, run, "vpc-id", func(in types.Filter) ([]resource, error) {
		out, err := a.ec2.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{in}})
		if err != nil {
			return nil, err
		}
		var found []resource
		for _, endpoint := range out.VpcEndpoints {
			if endpoint.State == types.StateDeleted || endpoint.State == "deleted" {
				continue
			}
			found = append(found, resource{"VPC endpoint " + *endpoint.VpcEndpointId, calling(a.ec2.DeleteVpcEndpoints, &ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*endpoint.VpcEndpointId}})})
		}
		return found, nil
	})
}

// addresses returns the Elastic IP addresses of a run, whose NAT gateway may still have
// them.
func (a *Account) addresses(ctx context.Context, run Run) ([]resource, error) {
	out, err := a.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: run.tagged()})
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	var found []resource
	for _, address := range out.Addresses {
		found = append(found, resource{"address " + *address.AllocationId, calling(a.ec2.ReleaseAddress, &ec2.ReleaseAddressInput{AllocationId: address.AllocationId})})
	}
	return sorted(found), nil
}

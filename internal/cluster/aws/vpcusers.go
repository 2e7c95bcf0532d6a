package aws

import (
	"context"
	"fmt"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// ListVPCUsers returns what prevents the deletion of a VPC: network interfaces, endpoints
// and security groups. The error of AWS, DependencyViolation, names none of them.
func ListVPCUsers(ctx context.Context, cfg Config, vpc string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, filter := cfg.ec2(), []types.Filter{{Name: new("vpc-id"), Values: []string{vpc}}}
	var users []string
	interfaces, err := describeInterfaces(ctx, client, filter...)
	if err != nil {
		return nil, err
	}
	for _, each := range interfaces {
		users = append(users, describe("network interface", sdkaws.ToString(each.NetworkInterfaceId), sdkaws.ToString(each.Description)))
	}
	endpoints, err := list(ctx, "ec2:DescribeVpcEndpoints", ec2.NewDescribeVpcEndpointsPaginator(client, &ec2.DescribeVpcEndpointsInput{Filters: filter}),
		func(page *ec2.DescribeVpcEndpointsOutput) []types.VpcEndpoint { return page.VpcEndpoints })
	if err != nil {
		return nil, err
	}
	for _, each := range endpoints {
		if each.State != types.StateDeleted {
			users = append(users, describe("endpoint", sdkaws.ToString(each.VpcEndpointId), sdkaws.ToString(each.ServiceName)))
		}
	}
	groups, err := describeGroups(ctx, client, filter...)
	if err != nil {
		return nil, err
	}
	for _, each := range groups {
		if name := sdkaws.ToString(each.GroupName); name != "default" {
			users = append(users, describe("security group", sdkaws.ToString(each.GroupId), name))
		}
	}
	return users, nil
}

// describe returns the text of a resource.
func describe(kind, id, name string) string {
	if name == "" || name == id {
		return kind + " " + id
	}
	return fmt.Sprintf("%s %s (%s)", kind, id, name)
}

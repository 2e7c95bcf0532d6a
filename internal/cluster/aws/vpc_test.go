package aws_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
)

const vpcID = "vpc-0123456789abcdef0"

// subnet returns a subnet in zone a, b or c.
func subnet(id, zone string, tags ...string) awstest.Subnet {
	s := awstest.Subnet{ID: id, Zone: awstest.Region + zone, CIDR: "10.0.0.0/24", Tags: map[string]string{"Name": id}}
	for i := 0; i < len(tags); i += 2 {
		s.Tags[tags[i]] = tags[i+1]
	}
	return s
}

func zoneID(s awstest.Subnet, id string) awstest.Subnet {
	s.ZoneID = id
	return s
}

func table(id string, gateways []string, subnets ...string) awstest.RouteTable {
	return awstest.RouteTable{ID: id, Gateways: gateways, Subnets: subnets}
}

func mainTable(gateways ...string) awstest.RouteTable {
	return awstest.RouteTable{ID: "rtb-main", Main: true, Gateways: gateways}
}

func ids(vpc aws.VPC) []string {
	var list []string
	for _, s := range vpc.Subnets {
		list = append(list, s.ID)
	}
	return list
}

func TestLookUpVPC_selectsSubnets(t *testing.T) {
	const clusterTag, roleTag = "kubernetes.io/cluster/demo", "kubernetes.io/role/internal-elb"
	igw, nat := []string{"igw-1"}, []string{"nat-1"}
	outpost := subnet("outpost", "c")
	outpost.Outpost = "arn:aws:outposts:eu-west-1:1:outpost/op-1"
	blackhole := table("blackhole", igw, "a1", "b1")
	blackhole.Blackhole = true
	tests := []struct {
		name    string
		subnets []awstest.Subnet
		tables  []awstest.RouteTable
		want    []string
		err     []string
	}{
		{
			name: "by the cluster's tag",
			subnets: []awstest.Subnet{
				subnet("b1", "b", clusterTag, "owned"), subnet("a1", "a", clusterTag, "shared"), subnet("c1", "c", clusterTag, "no"),
				subnet("d1", "a", roleTag, "1"), subnet("e1", "a", clusterTag+"-2", "owned"),
			},
			tables: []awstest.RouteTable{mainTable(igw...)},
			want:   []string{"a1", "b1"},
		},
		{
			name: "by the cluster's tag, without public and local ones",
			subnets: []awstest.Subnet{
				subnet("b1", "b", clusterTag, "shared"), subnet("a1", "a", clusterTag, "shared"), subnet("a2", "a", clusterTag, "shared"),
				subnet("b2", "b", clusterTag, "shared"), subnet("local", "-lhr-1a", clusterTag, "shared"),
			},
			tables: []awstest.RouteTable{mainTable(nat...), table("public", igw, "a2", "b2")},
			want:   []string{"a1", "b1"},
		},
		{
			name: "by the cluster's tag, with public ones if the private ones are in one zone",
			subnets: []awstest.Subnet{
				subnet("a1", "a", clusterTag, "shared"), subnet("b2", "b", clusterTag, "shared"),
			},
			tables: []awstest.RouteTable{mainTable(nat...), table("public", igw, "b2")},
			want:   []string{"a1", "b2"},
		},
		{
			name:    "none in a zone in which EKS is not offered",
			subnets: []awstest.Subnet{subnet("a1", "a"), zoneID(subnet("b1", "b"), "use1-az3"), subnet("c1", "c")},
			tables:  []awstest.RouteTable{mainTable(nat...)},
			want:    []string{"a1", "c1"},
		},
		{
			name:    "by the role's tag",
			subnets: []awstest.Subnet{subnet("b1", "b", roleTag, "1"), subnet("a1", "a", roleTag, ""), subnet("c1", "c", roleTag, "0"), subnet("d1", "c")},
			tables:  []awstest.RouteTable{mainTable()},
			want:    []string{"a1", "b1"},
		},
		{
			name:    "the private ones, by their own route table",
			subnets: []awstest.Subnet{subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b"), subnet("b2", "b")},
			tables:  []awstest.RouteTable{mainTable(igw...), table("private", nat, "a2", "b2")},
			want:    []string{"a2", "b2"},
		},
		{
			name:    "the private ones, by the main route table",
			subnets: []awstest.Subnet{subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b"), subnet("b2", "b")},
			tables:  []awstest.RouteTable{table("public", igw, "a2", "b2"), mainTable(nat...)},
			want:    []string{"a1", "b1"},
		},
		{
			name:    "the private ones, with a deleted gateway",
			subnets: []awstest.Subnet{subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b")},
			tables:  []awstest.RouteTable{blackhole, mainTable(igw...)},
			want:    []string{"a1", "b1"},
		},
		{
			name:    "all if none is private",
			subnets: []awstest.Subnet{subnet("b1", "b"), subnet("a1", "a")},
			tables:  []awstest.RouteTable{mainTable(igw...)},
			want:    []string{"a1", "b1"},
		},
		{
			name:    "none in zones without EKS",
			subnets: []awstest.Subnet{subnet("a1", "a"), subnet("b1", "b"), subnet("local", "-lhr-1a"), outpost},
			tables:  []awstest.RouteTable{mainTable()},
			want:    []string{"a1", "b1"},
		},
		{
			name:    "one zone",
			subnets: []awstest.Subnet{subnet("a2", "a", clusterTag, "owned"), subnet("a1", "a", clusterTag, "owned"), subnet("b1", "b")},
			tables:  []awstest.RouteTable{mainTable()},
			err:     []string{"at least two zones", "has only a1 (eu-west-1a), a2 (eu-west-1a) (those tagged kubernetes.io/cluster/demo)", "existingSubnetIds"},
		},
		{name: "no subnet", tables: []awstest.RouteTable{mainTable()}, err: []string{"VPC " + vpcID + " has no subnet", "two zones"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			server := awstest.New(t)
			server.AddVPC(awstest.VPC{ID: vpcID, CIDR: "10.0.0.0/16"}, tt.subnets, tt.tables)
			server.AddVPC(awstest.VPC{ID: "vpc-other"}, []awstest.Subnet{subnet("x", "a", clusterTag, "owned")}, nil)

			vpc, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", nil)

			if tt.err != nil {
				g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
				for _, text := range tt.err {
					g.Expect(err).To(MatchError(ContainSubstring(text)))
				}
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ids(vpc)).To(Equal(tt.want))
			g.Expect(vpc.CIDR).To(Equal("10.0.0.0/16"))
		})
	}
}

func TestLookUpVPC_describesSubnets(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddVPC(awstest.VPC{ID: vpcID, CIDR: "10.0.0.0/16"},
		[]awstest.Subnet{subnet("b1", "b"), subnet("a1", "a"), subnet("a2", "a")},
		[]awstest.RouteTable{mainTable("nat-1"), table("public", []string{"igw-1"}, "b1")})

	vpc, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", []string{"b1", "a1"})

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(vpc).To(Equal(aws.VPC{ID: vpcID, CIDR: "10.0.0.0/16", Subnets: []aws.Subnet{
		{ID: "a1", Zone: "eu-west-1a", CIDR: "10.0.0.0/24"},
		{ID: "b1", Zone: "eu-west-1b", CIDR: "10.0.0.0/24", Public: true},
	}}), "exactly the named subnets")
	g.Expect(vpc.Zones()).To(Equal([]string{"eu-west-1a", "eu-west-1b"}))
}

func TestLookUpVPC_rejectsSubnetsOfOtherVPCs(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddVPC(awstest.VPC{ID: vpcID}, []awstest.Subnet{subnet("a1", "a"), subnet("b1", "b")}, nil)
	server.AddVPC(awstest.VPC{ID: "vpc-other"}, []awstest.Subnet{subnet("x1", "a")}, nil)

	_, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", []string{"x1", "b1", "gone"})

	g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
	g.Expect(err).To(MatchError(HaveSuffix("is in VPC " + vpcID + ": gone does not exist, x1 is in vpc-other")))
}

func TestLookUpVPC_requiresTwoZonesOfNamedSubnets(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddVPC(awstest.VPC{ID: vpcID}, []awstest.Subnet{subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b")}, nil)

	_, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", []string{"a1", "a2"})

	g.Expect(err).To(MatchError(ContainSubstring("has only a1 (eu-west-1a), a2 (eu-west-1a) (those in existingSubnetIds)")))
}

func TestLookUpVPC_reportsThatAVPCDoesNotExist(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddVPC(awstest.VPC{ID: "vpc-other"}, nil, nil)

	_, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", nil)

	g.Expect(aws.KindOf(err)).To(Equal(aws.KindNotFound))
	g.Expect(err).To(MatchError(ContainSubstring("VPC " + vpcID + " does not exist in eu-west-1")))
}

func TestLookUpVPC_namesTheMissingPermission(t *testing.T) {
	for _, action := range []string{"DescribeVpcs", "DescribeSubnets", "DescribeRouteTables"} {
		t.Run(action, func(t *testing.T) {
			g := NewWithT(t)
			server := awstest.New(t)
			server.AddVPC(awstest.VPC{ID: vpcID}, nil, nil)
			server.Deny(action)

			_, err := aws.LookUpVPC(t.Context(), load(g, server.Env(), aws.Options{}), vpcID, "demo", nil)

			g.Expect(aws.KindOf(err)).To(Equal(aws.KindDenied))
			g.Expect(err).To(MatchError(And(ContainSubstring("ec2:"+action), Not(ContainSubstring("Encoded")), Not(ContainSubstring("xxx")))))
		})
	}
}

func TestLookUpVPC_readsEveryPageInAStableOrder(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	var subnets []awstest.Subnet
	var tables []awstest.RouteTable
	for i := range 30 {
		id := fmt.Sprintf("subnet-%02d", i)
		subnets = append(subnets, subnet(id, string("abc"[i%3])))
		tables = append(tables, table("rtb-"+id, []string{[]string{"igw-1", "nat-1"}[i%2]}, id))
	}
	server.AddVPC(awstest.VPC{ID: "vpc-other"}, nil, nil)
	server.AddVPC(awstest.VPC{ID: vpcID}, subnets, append(tables, mainTable()))
	cfg := load(g, server.Env(), aws.Options{})
	whole, err := aws.LookUpVPC(t.Context(), cfg, vpcID, "demo", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole.Subnets).To(HaveLen(15), "every second subnet is private")

	server.PageSize(5)
	server.Shuffle()
	paged, err := aws.LookUpVPC(t.Context(), cfg, vpcID, "demo", nil)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(paged).To(Equal(whole))
	g.Expect(server.Calls("DescribeSubnets")).To(BeNumerically(">=", 1+6))
	g.Expect(server.Calls("DescribeRouteTables")).To(BeNumerically(">=", 1+7))
}

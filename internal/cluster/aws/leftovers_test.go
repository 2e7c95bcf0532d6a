package aws

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// test/aws checks on an emulator which resources are leftovers.
func TestSweepLeftovers_namesMissingPermissions(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	sweep := func() (Leftovers, error) {
		query := LeftoverQuery{Cluster: "demo", VPC: "vpc-1", Managed: []string{"sg-1"}}
		return Cloud{Now: time.Now}.SweepLeftovers(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, query)
	}
	found, err := sweep()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(Leftovers{}))
	g.Expect(server.UserAgents()).To(HaveEach(ContainSubstring(userAgent)))
	g.Expect(server.Calls("DescribeNetworkInterfaces")).To(Equal(3), "by two tags, and by the groups that runs manage")

	server.Deny("DescribeTargetGroups")
	server.Deny("DescribeVolumes")
	found, err = sweep()
	g.Expect(err).NotTo(HaveOccurred(), "credentials for the modules alone do not block a deletion")
	g.Expect(found.Unread).To(HaveExactElements(
		ContainSubstring("elasticloadbalancing:DescribeTargetGroups: a permission is missing"), ContainSubstring("ec2:DescribeVolumes: a permission is missing")))

	calls := server.Calls("DescribeLoadBalancers")
	server.Fail("DescribeLoadBalancers", 2, http.StatusServiceUnavailable, "ServiceUnavailable", "later")
	_, err = sweep()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Calls("DescribeLoadBalancers")).To(Equal(calls+4), "repeated, and then for classic load balancers")

	server.Fail("DescribeLoadBalancers", attempts, http.StatusServiceUnavailable, "ServiceUnavailable", "later")
	_, err = sweep()
	g.Expect(err).To(MatchError(ContainSubstring("elasticloadbalancing:DescribeLoadBalancers: ServiceUnavailable: later")))
}

// An empty name would match every load balancer without a tag, and one with a wildcard
// those of other clusters.
func TestSweepLeftovers_requiresANameAndAVPC(t *testing.T) {
	for _, query := range []LeftoverQuery{{}, {Cluster: "demo"}, {VPC: "vpc-1"}, {Cluster: "de*", VPC: "vpc-1"}, {Cluster: "a?", VPC: "vpc-1"}} {
		query.Delete = true
		_, err := SweepLeftovers(t.Context(), Config{}, query)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("a name of an EKS cluster and a VPC are required")))
	}
}

func TestAddress_followsThePartition(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1":     "https://elasticloadbalancing.eu-west-1.amazonaws.com/",
		"cn-north-1":    "https://elasticloadbalancing.cn-north-1.amazonaws.com.cn/",
		"us-gov-west-1": "https://elasticloadbalancing.us-gov-west-1.amazonaws.com/",
	} {
		g := NewWithT(t)
		env := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING": "https://elb.example.com"}
		credentials, err := FromEnv(env, nil)
		g.Expect(err).NotTo(HaveOccurred())
		config, err := Load(t.Context(), credentials, Options{Region: region})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.address(t.Context(), loadBalancing)).To(Equal(want))
		g.Expect(config.address(t.Context(), classicLoadBalancing)).To(Equal("https://elb.example.com"))
	}
	g := NewWithT(t)
	credentials, err := FromEnv(map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_USE_FIPS_ENDPOINT": "true"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(t.Context(), credentials, Options{Region: "us-east-1"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.address(t.Context(), loadBalancing)).To(Equal("https://elasticloadbalancing-fips.us-east-1.amazonaws.com/"))
}

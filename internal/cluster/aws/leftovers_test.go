package aws

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// test/aws checks on an emulator which resources are leftovers.
func TestSweepLeftovers_namesMissingPermissions(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.AddCluster("demo", "https://API.example.com")
	sweep := func() (Leftovers, error) {
		query := LeftoverQuery{Cluster: "demo", Endpoint: "api.example.com", VPC: "vpc-1", Managed: []string{"sg-1"}}
		return Cloud{Now: time.Now}.SweepLeftovers(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, query)
	}
	found, err := sweep()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(Leftovers{}))
	g.Expect(server.UserAgents()).To(HaveEach(ContainSubstring(userAgent)))
	g.Expect(server.Calls("DescribeNetworkInterfaces")).To(Equal(4), "by three tags, and by the groups that runs manage")

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

// A module that assumes a role creates the cluster in another account than that of the
// credentials, in which another cluster may have the name.
func TestSweepLeftovers_searchesOnlyTheAccountOfTheCluster(t *testing.T) {
	const everything = 10
	for name, c := range map[string]struct {
		clusters map[string]string
		deny     string
		// role gives the role that tokens are signed with, which is in another account.
		role           bool
		interfacesOnly bool
		searched       int
		unread         string
	}{
		"of the account":   {clusters: map[string]string{"demo": "https://api.example.com"}, searched: everything},
		"not there":        {unread: "EKS cluster demo does not exist in the account and region " + awstest.Region + " of the credentials"},
		"another one":      {clusters: map[string]string{"demo": "https://other.example.com"}, unread: "is another cluster, whose endpoint is not api.example.com"},
		"by role":          {clusters: map[string]string{"spoke/demo": "https://api.example.com"}, role: true, searched: everything},
		"by role, hub too": {clusters: map[string]string{"demo": "https://other.example.com", "spoke/demo": "https://api.example.com"}, role: true, searched: everything},
		"not by role":      {clusters: map[string]string{"spoke/demo": "https://other.example.com"}, role: true, unread: "spec.kubeconfig.roleARN"},
		"hidden":           {clusters: map[string]string{"demo": "https://api.example.com"}, deny: "DescribeCluster", unread: "eks:DescribeCluster: a permission is missing"},
		// It is being destroyed. An id of a VPC exists once.
		"destroyed":            {interfacesOnly: true, searched: 3},
		"destroyed, by role":   {interfacesOnly: true, role: true, searched: 6},
		"destroyed, created":   {clusters: map[string]string{"demo": "https://other.example.com"}, interfacesOnly: true, unread: "is another cluster"},
		"not destroyed so far": {clusters: map[string]string{"demo": "https://api.example.com"}, interfacesOnly: true, searched: 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := awstest.New(t)
			query := LeftoverQuery{Cluster: "demo", Endpoint: "api.example.com", VPC: "vpc-1", Managed: []string{"sg-1"}, Delete: true, InterfacesOnly: c.interfacesOnly}
			if c.role {
				query.RoleARN = server.AddRole("spoke")
			}
			for name, endpoint := range c.clusters {
				server.AddCluster(name, endpoint)
			}
			if c.deny != "" {
				server.Deny(c.deny)
			}
			found, err := Cloud{Now: time.Now}.SweepLeftovers(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, query)
			g.Expect(err).NotTo(HaveOccurred())
			searched := 0
			for _, action := range []string{
				"DescribeLoadBalancers", "DescribeTargetGroups", "DescribeInstances", "DescribeNetworkInterfaces", "DescribeSecurityGroups",
				"DescribeLaunchTemplates", "ListInstanceProfiles", "DescribeVolumes",
			} {
				searched += server.Calls(action)
			}
			if c.unread == "" {
				g.Expect(found.Unread).To(BeEmpty())
				g.Expect(searched).To(BeNumerically(">=", c.searched))
			} else {
				g.Expect(found.Unread).To(HaveExactElements(ContainSubstring(c.unread)))
				g.Expect(searched).To(BeZero(), "nothing is looked up in another account, and nothing deleted")
			}
		})
	}
}

// An empty name would match every load balancer without a tag, and one with a wildcard
// those of other clusters.
func TestSweepLeftovers_requiresANameAndAVPC(t *testing.T) {
	for _, query := range []LeftoverQuery{{}, {Cluster: "demo"}, {VPC: "vpc-1"}, {Cluster: "de*", VPC: "vpc-1"}, {Cluster: "a?", VPC: "vpc-1"}, {Cluster: "demo", VPC: "vpc-1"}} {
		query.Delete = true
		_, err := SweepLeftovers(t.Context(), Config{}, query)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the name of an EKS cluster, its endpoint and its VPC are required")))
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
		g.Expect(config.address(t.Context(), eks)).To(Equal(strings.Replace(want, "elasticloadbalancing", "eks", 1)))
	}
	g := NewWithT(t)
	credentials, err := FromEnv(map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_USE_FIPS_ENDPOINT": "true"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(t.Context(), credentials, Options{Region: "us-east-1"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.address(t.Context(), loadBalancing)).To(Equal("https://elasticloadbalancing-fips.us-east-1.amazonaws.com/"))
	g.Expect(config.address(t.Context(), eks)).To(Equal("https://fips.eks.us-east-1.amazonaws.com/"))
}

func TestIsForgotten(t *testing.T) {
	tags := func(pairs ...string) (all []types.Tag) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
		}
		return all
	}
	for name, c := range map[string]struct {
		description string
		tags        []types.Tag
		status      types.NetworkInterfaceStatus
		vpc         string
		want        bool
	}{
		"of the cluster":          {tags: tags(cniTag, "demo"), want: true},
		"without a tag":           {want: true},
		"of another cluster":      {tags: tags(cniTag, "other")},
		"owned by another one":    {tags: tags(clusterTagPrefix+"other", ownedTag)},
		"of another one's pods":   {description: "aws-k8s-branch-eni", tags: tags(eksClusterTag, "other")},
		"of pods":                 {description: "aws-k8s-branch-eni", tags: tags(clusterTagPrefix+"demo", ownedTag), want: true},
		"of nodes for pods":       {description: "aws-k8s-trunk-eni", want: true},
		"of a user":               {description: "of a user"},
		"attached":                {status: types.NetworkInterfaceStatusInUse},
		"elsewhere":               {vpc: "vpc-2"},
		"about to be attached":    {tags: tags(cniCreatedTag, time.Now().Format(time.RFC3339))},
		"not attached for longer": {tags: tags(cniCreatedTag, time.Now().Add(-time.Hour).Format(time.RFC3339)), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sweep{query: LeftoverQuery{Cluster: "demo", VPC: "vpc-1"}}
			each := types.NetworkInterface{
				NetworkInterfaceId: new("eni-1"), VpcId: new(cmp.Or(c.vpc, "vpc-1")), TagSet: c.tags,
				Status: cmp.Or(c.status, types.NetworkInterfaceStatusAvailable), Description: new(cmp.Or(c.description, "aws-K8S-i-1")),
			}
			NewWithT(t).Expect(s.isForgotten(each)).To(Equal(c.want))
		})
	}
}

func TestIsManaged_knowsOtherWorkspaces(t *testing.T) {
	g := NewWithT(t)
	s := &sweep{query: LeftoverQuery{Managed: []string{"sg-1"}, Protected: []string{"sg-2"}}}
	g.Expect(s.isManaged("sg-1")).To(BeTrue())
	g.Expect(s.isManaged("sg-2")).To(BeTrue())
	g.Expect(s.isManaged("sg-3")).To(BeFalse())
	g.Expect(s.managedGroups()).To(Equal([]string{"sg-1"}), "interfaces in groups of others are not those of the nodes")
}

// What does not prevent the deletion of the VPC is only reported if it cannot be deleted,
// and one kind that fails does not hide the others.
func TestRun_waitsOnlyForWhatBlocks(t *testing.T) {
	g := NewWithT(t)
	denied := func(context.Context) error { return &Error{Kind: KindDenied, Text: "denied"} }
	found := func(text string) lookup {
		return lookup{find: func(context.Context) ([]leftover, error) { return []leftover{{text, denied}}, nil }}
	}
	blocking, other := found("instance i-1"), found("launch template lt-1")
	blocking.blocks = true
	s := &sweep{query: LeftoverQuery{Delete: true}}
	failing := lookup{find: func(context.Context) ([]leftover, error) { return nil, errors.New("no answer") }}
	g.Expect(s.runAll(t.Context(), []lookup{failing, blocking, other})).To(MatchError("no answer"))
	g.Expect(s.result.Remaining).To(HaveExactElements("instance i-1 (denied)"))
	g.Expect(s.result.Retained).To(HaveExactElements("launch template lt-1 (denied)"))
}

// A load balancer that is deleted during a lookup does not end it.
func TestBalancerTags_skipsWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	credentials, err := FromEnv(server.Env(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(t.Context(), credentials, Options{})
	g.Expect(err).NotTo(HaveOccurred())
	s := &sweep{cfg: config}
	server.Fail("DescribeTags", 2, http.StatusBadRequest, "LoadBalancerNotFound", "One or more load balancers not found")
	_, err = s.balancerTags(t.Context(), balancers, []balancer{{ARN: "a"}, {ARN: "b"}, {ARN: "c"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Calls("DescribeTags")).To(Equal(4), "together, and then one by one")
}

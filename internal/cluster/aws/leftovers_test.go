package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"

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

func TestConfig_usesTheEndpointOfEachService(t *testing.T) {
	g := NewWithT(t)
	for name, address := range map[string]func(Config) *string{
		stsService:   func(c Config) *string { return c.sts().Options().BaseEndpoint },
		iamService:   func(c Config) *string { return c.iam().Options().BaseEndpoint },
		ec2Service:   func(c Config) *string { return c.ec2().Options().BaseEndpoint },
		eksService:   func(c Config) *string { return c.eks().Options().BaseEndpoint },
		elbService:   func(c Config) *string { return c.elb().Options().BaseEndpoint },
		elbV2Service: func(c Config) *string { return c.elbV2().Options().BaseEndpoint },
	} {
		for variable, want := range map[string]gomegatypes.GomegaMatcher{
			"AWS_ENDPOINT_URL_" + name: HaveValue(Equal("https://aws.example.com")), "AWS_ENDPOINT_URL": HaveValue(Equal("https://aws.example.com")),
			"AWS_ENDPOINT_URL_OTHER": BeNil(),
		} {
			credentials, err := FromEnv(map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", variable: "https://aws.example.com"}, nil)
			g.Expect(err).NotTo(HaveOccurred())
			config, err := Load(t.Context(), credentials, Options{Region: "eu-west-1"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(address(config)).To(want, "%s with %s", name, variable)
		}
	}
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
func TestTagsOf_skipsWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	credentials, err := FromEnv(server.Env(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(t.Context(), credentials, Options{})
	g.Expect(err).NotTo(HaveOccurred())
	server.Fail("DescribeTags", 2, http.StatusBadRequest, "LoadBalancerNotFound", "One or more load balancers not found")
	_, err = config.balancers().tagsOf(t.Context(), []balancer{{id: "a"}, {id: "b"}, {id: "c"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Calls("DescribeTags")).To(Equal(4), "together, and then one by one")
}

// Load balancers of the cluster are those of its VPC with the tag of a controller, on all pages.
func TestBalancersOf_deletesThoseOfTheCluster(t *testing.T) {
	const tags = "<Tags><member><Key>elbv2.k8s.aws/cluster</Key><Value>demo</Value></member></Tags>"
	answers := map[string]string{
		"DescribeLoadBalancers 2015-12-01 ": "<LoadBalancers><member><LoadBalancerArn>arn:a</LoadBalancerArn><LoadBalancerName>a</LoadBalancerName><VpcId>vpc-1</VpcId></member></LoadBalancers><NextMarker>m</NextMarker>",
		"DescribeLoadBalancers 2015-12-01 m": "<LoadBalancers><member><LoadBalancerArn>arn:b</LoadBalancerArn><LoadBalancerName>b</LoadBalancerName><VpcId>vpc-2</VpcId></member>" +
			"<member><LoadBalancerArn>arn:c</LoadBalancerArn><LoadBalancerName>c</LoadBalancerName><VpcId>vpc-1</VpcId></member></LoadBalancers>",
		"DescribeTargetGroups 2015-12-01 ":  "<TargetGroups><member><TargetGroupArn>arn:g</TargetGroupArn><TargetGroupName>g</TargetGroupName><VpcId>vpc-1</VpcId></member></TargetGroups>",
		"DescribeTags 2015-12-01 ":          "<TagDescriptions><member><ResourceArn>arn:a</ResourceArn>" + tags + "</member><member><ResourceArn>arn:g</ResourceArn>" + tags + "</member></TagDescriptions>",
		"DescribeLoadBalancers 2012-06-01 ": "<LoadBalancerDescriptions><member><LoadBalancerName>d</LoadBalancerName><VPCId>vpc-1</VPCId></member></LoadBalancerDescriptions>",
		"DescribeTags 2012-06-01 ":          "<TagDescriptions><member><LoadBalancerName>d</LoadBalancerName>" + tags + "</member></TagDescriptions>",
	}
	g := NewWithT(t)
	var deleted []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action := r.FormValue("Action")
		if strings.HasPrefix(action, "Delete") {
			deleted = append(deleted, r.FormValue("LoadBalancerArn")+r.FormValue("TargetGroupArn")+r.FormValue("LoadBalancerName"))
		}
		_, _ = fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, answers[action+" "+r.FormValue("Version")+" "+r.FormValue("Marker")])
	}))
	defer server.Close()
	credentials, err := FromEnv(map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": server.URL}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(t.Context(), credentials, Options{Region: "eu-west-1"})
	g.Expect(err).NotTo(HaveOccurred())
	s := &sweep{query: LeftoverQuery{Cluster: "demo", VPC: "vpc-1", Delete: true}}
	for _, kind := range []balancerKind{config.balancers(), config.classicBalancers(), config.targetGroups()} {
		g.Expect(s.run(t.Context(), lookup{find: s.balancersOf(kind)})).To(Succeed())
	}
	g.Expect(s.result.Remaining).To(Equal([]string{"load balancer a", "classic load balancer d", "target group g"}))
	g.Expect(deleted).To(Equal([]string{"arn:a", "d", "arn:g"}))
}

package aws

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestCloud_usesItsOwnIdentityOnlyIfAllowed(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	for name, value := range server.Env() {
		t.Setenv(name, value)
	}
	none := &workspace.Credentials{}

	_, err := Cloud{Now: time.Now}.Token(t.Context(), none, awstest.Region, "", Cluster{Name: "demo"})
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(waiting.Reason).To(Equal(controlplanev1.TokenFailedReason))
	g.Expect(waiting.RetryAfter).To(Equal(retryInterval))
	g.Expect(waiting.Message()).To(And(ContainSubstring("--aws-own-identity"), ContainSubstring("flags.aws-own-identity of the chart")))

	for _, env := range []map[string]string{
		{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/any"},
		{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/any", "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"},
		{"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"},
		{"AWS_PROFILE": "default"},
		{"AWS_DEFAULT_PROFILE": "default"},
	} {
		_, err := Cloud{Now: time.Now}.Token(t.Context(), &workspace.Credentials{Env: env}, awstest.Region, "", Cluster{Name: "demo"})
		g.Expect(err).To(MatchError(ContainSubstring("--aws-own-identity")), "%v", env)
	}
	elsewhere := &workspace.Credentials{Env: map[string]string{"AWS_ENDPOINT_URL_STS": "https://sts.example.com"}}
	_, err = Cloud{OwnIdentity: true, Now: time.Now}.Token(t.Context(), elsewhere, awstest.Region, "", Cluster{Name: "demo"})
	g.Expect(err).To(MatchError(ContainSubstring("AWS_ENDPOINT_URL")))

	token, err := Cloud{OwnIdentity: true, Now: time.Now}.Token(t.Context(), none, awstest.Region, "", Cluster{Name: "demo"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.Value.IsZero()).To(BeFalse())
}

// A token contains the name of a cluster only. A team whose cluster was deleted must not get
// one for the next cluster of this name, which may be of another team.
func TestCloud_signsWithLentCredentialsOnlyForTheClusterInTheirAccount(t *testing.T) {
	const endpoint, other = "https://ABC.gr7.example.com", "https://XYZ.gr7.example.com"
	for name, c := range map[string]struct {
		clusters map[string]string
		deny     string
		// role signs as a role of another account.
		role    bool
		refused string
	}{
		"the cluster":          {clusters: map[string]string{"demo": "https://abc.gr7.example.com"}},
		"deleted":              {refused: "EKS cluster demo does not exist in the account and region " + awstest.Region},
		"created by others":    {clusters: map[string]string{"demo": other}, refused: "is another cluster, whose endpoint is not ABC.gr7.example.com"},
		"hidden":               {clusters: map[string]string{"demo": endpoint}, deny: "DescribeCluster", refused: "eks:DescribeCluster: a permission is missing"},
		"of the role":          {role: true, clusters: map[string]string{"spoke/demo": endpoint, "demo": other}},
		"seen by the lender":   {role: true, clusters: map[string]string{"demo": endpoint}},
		"another, of the role": {role: true, clusters: map[string]string{"spoke/demo": other, "demo": endpoint}, refused: "is another cluster"},
		"deleted, with a role": {role: true, refused: "does not exist"},
		"another, of the lender": {
			role: true, clusters: map[string]string{"demo": other}, refused: "is another cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := awstest.New(t)
			for name, address := range c.clusters {
				server.AddCluster(name, address)
			}
			role := ""
			if c.role {
				role = server.AddRole("spoke")
			}
			if c.deny != "" {
				server.Deny(c.deny)
			}
			lent := &workspace.Credentials{Env: server.Env(), Lent: &infrav1.WorkspaceProviderConfig{}}
			token, err := Cloud{Now: time.Now}.Token(t.Context(), lent, awstest.Region, role, Cluster{Name: "demo", Endpoint: endpoint})
			if c.refused == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(token.Value.IsZero()).To(BeFalse())
				return
			}
			g.Expect(token.Value.IsZero()).To(BeTrue())
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(waiting.Reason).To(Equal(controlplanev1.TokenFailedReason))
			g.Expect(waiting.Message()).To(And(ContainSubstring(c.refused), Not(ContainSubstring("XYZ"))))
		})
	}

	t.Run("own credentials", func(t *testing.T) {
		g := NewWithT(t)
		server := awstest.New(t)
		_, err := Cloud{Now: time.Now}.Token(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, "", Cluster{Name: "demo", Endpoint: endpoint})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(server.Calls("DescribeCluster")).To(BeZero(), "a team may use its own credentials for everything")
	})
}

func TestCloud_waitsWithTheReasonOfTheStepIfAWSRefuses(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("CreateServiceLinkedRole")
	_, err := Cloud{Now: time.Now}.EnsureSpotRole(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, "")
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(waiting.Reason).To(Equal(controlplanev1.SpotRoleFailedReason))
}

// roleOfAnotherAccount returns a role that may be assumed.
func roleOfAnotherAccount(server *awstest.Server) string {
	own := server.Account
	defer func() { server.Account = own }()
	server.Account = "210987654321"
	return server.AddRole("spoke")
}

// The runs create clusters in the account of the role: another account's Spot role and VPCs
// are of no use for them.
func TestCloud_callsTheAccountOfTheRole(t *testing.T) {
	const unknown = "arn:aws:iam::210987654321:role/unknown"
	spot := func(server *awstest.Server, role string) error {
		_, err := Cloud{Now: time.Now}.EnsureSpotRole(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, role)
		return err
	}
	deniedOnce := func(server *awstest.Server) {
		server.Fail("CreateServiceLinkedRole", 1, http.StatusForbidden, "AccessDenied", "no")
	}

	t.Run("a role that cannot be assumed", func(t *testing.T) {
		g := NewWithT(t)
		server := awstest.New(t)
		g.Expect(KindOf(spot(server, unknown))).To(Equal(KindRoleDenied))
		g.Expect(server.HasRole(SpotRoleName)).To(BeFalse(), "not in the account of the credentials")
		_, err := Cloud{Now: time.Now}.LookUpVPC(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, unknown, "vpc-1", "demo", nil)
		g.Expect(KindOf(err)).To(Equal(KindRoleDenied))
		g.Expect(server.Calls("DescribeVpcs")).To(BeZero())
	})
	t.Run("a role of another account", func(t *testing.T) {
		g := NewWithT(t)
		server := awstest.New(t)
		role := roleOfAnotherAccount(server)
		deniedOnce(server)
		g.Expect(KindOf(spot(server, role))).To(Equal(KindDenied))
		g.Expect(server.HasRole(SpotRoleName)).To(BeFalse(), "a role that lacks the permission is not replaced by the credentials of another account")
		g.Expect(spot(server, role)).To(Succeed())
		g.Expect(server.Calls("AssumeRole")).To(BeNumerically(">", 0))
	})
	t.Run("a role of the same account for the API server alone", func(t *testing.T) {
		g := NewWithT(t)
		server := awstest.New(t)
		deniedOnce(server)
		g.Expect(spot(server, server.AddRole("tokens"))).To(Succeed())
		g.Expect(server.HasRole(SpotRoleName)).To(BeTrue())
	})
	t.Run("a role that does not see the VPC", func(t *testing.T) {
		g := NewWithT(t)
		server := awstest.New(t)
		_, err := Cloud{Now: time.Now}.LookUpVPC(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region, server.AddRole("tokens"), "vpc-1", "demo", nil)
		g.Expect(KindOf(err)).To(Equal(KindNotFound))
		g.Expect(server.Calls("DescribeVpcs")).To(Equal(2), "as the role, and without it")
	})
}

// A template names the endpoint, and with it an address that only the manager may reach.
func TestCloud_callsAllowedEndpointsOnly(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	given := &workspace.Credentials{Env: server.Env()}
	_, err := Cloud{Policy: &dial.Policy{}, Now: time.Now}.EnsureSpotRole(t.Context(), given, awstest.Region, "")
	g.Expect(err).To(MatchError(ContainSubstring(dial.ErrDenied.Error())))

	loopback, err := dial.ParseNetworks([]string{"127.0.0.0/8", "::1"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Cloud{Policy: &dial.Policy{Allowed: loopback}, Now: time.Now}.EnsureSpotRole(t.Context(), given, awstest.Region, "")
	g.Expect(err).NotTo(HaveOccurred())
}

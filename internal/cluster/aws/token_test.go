package aws_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 500_000_000, time.UTC)

func at(moment time.Time) func() time.Time { return func() time.Time { return moment } }

func decode(g *WithT, token aws.Token) *url.URL {
	encoded, found := strings.CutPrefix(token.Value.Reveal(), "k8s-aws-v1.")
	g.Expect(found).To(BeTrue())
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	g.Expect(err).NotTo(HaveOccurred())
	u, err := url.Parse(string(text))
	g.Expect(err).NotTo(HaveOccurred())
	return u
}

func TestSignToken_hasTheFormatOfEKS(t *testing.T) {
	g := NewWithT(t)
	cfg := load(g, given(keys(), "AWS_SESSION_TOKEN", session), aws.Options{Region: "eu-west-1"})

	token, err := aws.SignToken(t.Context(), cfg, "demo", at(noon))

	g.Expect(err).NotTo(HaveOccurred())
	u := decode(g, token)
	query := u.Query()
	g.Expect(u.Scheme + "://" + u.Host + u.Path).To(Equal("https://sts.eu-west-1.amazonaws.com/"))
	g.Expect(query.Get("X-Amz-Signature")).To(MatchRegexp("^[0-9a-f]{64}$"))
	query.Del("X-Amz-Signature")
	g.Expect(query).To(Equal(url.Values{
		"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"},
		"X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Credential": {keyID + "/20260504/eu-west-1/sts/aws4_request"},
		"X-Amz-Date": {"20260504T120000Z"}, "X-Amz-Expires": {"60"},
		"X-Amz-Security-Token": {session}, "X-Amz-SignedHeaders": {"host;x-k8s-aws-id"},
	}), "the token has no other parameters: authenticators reject unknown ones")
	g.Expect(token.ExpiresAt).To(Equal(noon.Truncate(time.Second).Add(14 * time.Minute)))

	second, err := aws.SignToken(t.Context(), cfg, "demo", at(noon))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(Equal(token), "the same time results in the same token")
}

func TestSignToken_usesTheRegionalSTS(t *testing.T) {
	tests := []struct {
		region string
		env    []string
		host   string
	}{
		{region: "us-east-1", host: "sts.us-east-1.amazonaws.com"},
		{region: "cn-north-1", host: "sts.cn-north-1.amazonaws.com.cn"},
		{region: "us-gov-west-1", host: "sts.us-gov-west-1.amazonaws.com"},
		{region: "us-east-2", env: []string{"AWS_USE_FIPS_ENDPOINT", "true"}, host: "sts-fips.us-east-2.amazonaws.com"},
		{region: "us-east-2", env: []string{"AWS_USE_FIPS_ENDPOINT", "false"}, host: "sts.us-east-2.amazonaws.com"},
		{region: "eu-west-1", env: []string{"AWS_ENDPOINT_URL", "https://sts.example.com"}, host: "sts.example.com"},
		{region: "eu-west-1", env: []string{"AWS_ENDPOINT_URL", "https://all.example.com", "AWS_ENDPOINT_URL_STS", "https://sts.example.com"}, host: "sts.example.com"},
		{region: "eu-west-1", env: []string{"AWS_ENDPOINT_URL_EC2", "https://ec2.example.com"}, host: "sts.eu-west-1.amazonaws.com"},
	}
	// Authenticators reject the host names of dual-stack endpoints.
	t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
	for _, tt := range tests {
		t.Run(tt.region+" "+tt.host, func(t *testing.T) {
			g := NewWithT(t)
			cfg := load(g, given(keys(), tt.env...), aws.Options{Region: tt.region})

			token, err := aws.SignToken(t.Context(), cfg, "demo", at(noon))

			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decode(g, token).Host).To(Equal(tt.host))
		})
	}
}

func TestSignToken_isAcceptedOnlyForItsCluster(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	cfg := load(g, server.Env(), aws.Options{})
	authenticator := awstest.NewAuthenticator(t, server, "demo")
	sign := func(cluster string, moment time.Time) string {
		token, err := aws.SignToken(t.Context(), cfg, cluster, at(moment))
		g.Expect(err).NotTo(HaveOccurred())
		return token.Value.Reveal()
	}
	authenticator.SetClock(at(noon))
	verify := func(token string) error { _, err := authenticator.Verify(t.Context(), token); return err }

	g.Expect(verify(sign("demo", noon))).To(Succeed())
	g.Expect(verify(sign("demo", noon.Add(-14*time.Minute)))).To(Succeed())
	g.Expect(verify(sign("demo", noon.Add(-16*time.Minute)))).To(MatchError(ContainSubstring("expired")))
	g.Expect(verify(sign("demo", noon.Add(time.Hour)))).To(MatchError(ContainSubstring("future")))
	g.Expect(verify(sign("other", noon))).To(MatchError(ContainSubstring("SignatureDoesNotMatch")))
	other := awstest.New(t)
	cfg = load(g, given(other.Env(), "AWS_ENDPOINT_URL", server.URL), aws.Options{})
	g.Expect(verify(sign("demo", noon))).To(MatchError(ContainSubstring("InvalidClientTokenId")))
}

func TestSignToken_expiresWithTheCredentials(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("deployer")
	server.LimitSessions(5 * time.Minute)
	cfg := load(g, server.Env(), aws.Options{RoleARN: role})

	start := time.Now()
	token, err := aws.SignToken(t.Context(), cfg, "demo", time.Now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.ExpiresAt).To(BeTemporally("~", start.Add(5*time.Minute), time.Minute))

	expiration := noon.Add(3 * time.Minute)
	cfg = load(g, given(keys(), "AWS_CREDENTIAL_EXPIRATION", expiration.Format(time.RFC3339Nano), "AWS_REGION", "eu-west-1"), aws.Options{})
	token, err = aws.SignToken(t.Context(), cfg, "demo", at(noon))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.ExpiresAt).To(Equal(expiration))
}

func TestSignToken_renewsASessionThatExpiresBeforeTheToken(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("deployer")
	server.LimitSessions(5 * time.Minute)
	cfg := load(g, server.Env(), aws.Options{RoleARN: role})
	_, err := aws.SignToken(t.Context(), cfg, "demo", time.Now)
	g.Expect(err).NotTo(HaveOccurred())
	server.LimitSessions(time.Hour)

	now := time.Now()
	token, err := aws.SignToken(t.Context(), cfg, "demo", at(now))

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.ExpiresAt).To(Equal(now.UTC().Truncate(time.Second).Add(14 * time.Minute)))

	t.Run("and keeps it if it cannot be renewed", func(t *testing.T) {
		g := NewWithT(t)
		calls := server.Calls("AssumeRole")
		server.Deny("AssumeRole")
		late := now.Add(50 * time.Minute)

		token, err := aws.SignToken(t.Context(), cfg, "demo", at(late))

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(server.Calls("AssumeRole")).To(BeNumerically(">", calls))
		g.Expect(token.ExpiresAt).To(BeTemporally("~", now.Add(time.Hour), time.Minute))
	})
}

func TestSignToken_rejectsInvalidClusterNames(t *testing.T) {
	g := NewWithT(t)
	cfg := load(g, given(keys(), "AWS_REGION", "eu-west-1"), aws.Options{})
	for _, name := range []string{"", "-x", "a b", "a\nb", strings.Repeat("a", 101)} {
		_, err := aws.SignToken(t.Context(), cfg, name, at(noon))
		g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid), name)
	}
}

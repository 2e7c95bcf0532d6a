package aws_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/kubernetes/dial"
)

func userARN(server *awstest.Server) string { return "arn:aws:iam::" + server.Account + ":user/capt" }

func sessionARN(server *awstest.Server, role string) string {
	return "arn:aws:sts::" + server.Account + ":assumed-role/" + role + "/capt"
}

func TestLoad_signsWithTheKeysOfTheProviderConfig(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)

	cfg := load(g, server.Env(), aws.Options{})

	g.Expect(signer(g, t, server, cfg)).To(Equal(userARN(server)))
	g.Expect(cfg.Region()).To(Equal(awstest.Region))
}

func TestLoad_prefersTheRegionOfTheOptions(t *testing.T) {
	g := NewWithT(t)
	cfg := load(g, given(keys(), "AWS_REGION", "eu-west-1"), aws.Options{Region: "us-east-2"})
	g.Expect(cfg.Region()).To(Equal("us-east-2"))
}

func TestLoad_requiresARegion(t *testing.T) {
	g := NewWithT(t)
	credentials, err := aws.FromEnv(keys(), nil)
	g.Expect(err).NotTo(HaveOccurred())

	_, err = aws.Load(t.Context(), credentials, aws.Options{})

	g.Expect(err).To(MatchError(ContainSubstring("the region is not set")))
	g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
}

// A user who chooses the region must not choose the host that gets signed requests.
func TestLoad_refusesARegionThatIsNoName(t *testing.T) {
	for _, region := range []string{"x.example.com/", "eu-west-1.example.com", "eu-west-1#", "EU", "-"} {
		g := NewWithT(t)
		credentials, err := aws.FromEnv(keys(), nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = aws.Load(t.Context(), credentials, aws.Options{Region: region})
		g.Expect(err).To(MatchError(ContainSubstring("write one such as eu-west-1")), region)
	}
}

func TestLoad_assumesTheRole(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("deployer")

	cfg := load(g, server.Env(), aws.Options{RoleARN: role})

	g.Expect(server.Calls("AssumeRole")).To(BeZero(), "loading sends no request")
	g.Expect(signer(g, t, server, cfg)).To(Equal(sessionARN(server, "deployer")))
	g.Expect(signer(g, t, server, cfg)).To(Equal(sessionARN(server, "deployer")))
	g.Expect(server.Calls("AssumeRole")).To(Equal(1), "the session is cached")
	g.Expect(server.UserAgents()).To(ConsistOf(MatchRegexp(`(^| )capt( |$)`)))
}

func TestLoad_assumesTheRolesOfAProfile(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	env := server.Env()
	first, second, third := server.AddRole("first"), server.AddRole("second"), server.AddRole("third")
	config := "[profile top]\nrole_arn = " + second + "\nsource_profile = middle\n[profile middle]\nrole_arn = " + first + "\nsource_profile = base\n" +
		"[profile base]\naws_access_key_id = " + env["AWS_ACCESS_KEY_ID"] + "\naws_secret_access_key = " + env["AWS_SECRET_ACCESS_KEY"] + "\n"
	credentials, err := aws.FromEnv(map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_CONFIG_FILE": "config", "AWS_PROFILE": "top", "AWS_REGION": "eu-west-1",
	}, map[string][]byte{"config": []byte(config)})
	g.Expect(err).NotTo(HaveOccurred())

	cfg, err := aws.Load(t.Context(), credentials, aws.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(signer(g, t, server, cfg)).To(Equal(sessionARN(server, "second")), "the roles are assumed beginning with the base profile")
	g.Expect(server.Calls("AssumeRole")).To(Equal(2))

	cfg, err = aws.Load(t.Context(), credentials, aws.Options{RoleARN: third})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(signer(g, t, server, cfg)).To(Equal(sessionARN(server, "third")), "the role of the options is assumed last")
}

func TestLoad_usesTheManagersIdentityByDefault(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	for name, value := range server.Env() {
		t.Setenv(name, value)
	}

	cfg := load(g, nil, aws.Options{})
	g.Expect(signer(g, t, server, cfg)).To(Equal(userARN(server)))
	g.Expect(cfg.Region()).To(Equal(awstest.Region))

	role := server.AddRole("deployer")
	g.Expect(signer(g, t, server, load(g, nil, aws.Options{RoleARN: role}))).To(Equal(sessionARN(server, "deployer")))
}

func TestLoad_prefersTheProviderConfigToTheManager(t *testing.T) {
	g := NewWithT(t)
	server, other := awstest.New(t), awstest.New(t)
	for name, value := range other.Env() {
		t.Setenv(name, value)
	}

	cfg := load(g, given(server.Env(), "AWS_ENDPOINT_URL", "", "AWS_ENDPOINT_URL_STS", server.URL), aws.Options{})

	g.Expect(signer(g, t, server, cfg)).To(Equal(userARN(server)))
}

func TestLoad_readsTheManagersProfiles(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	env := server.Env()
	file := filepath.Join(t.TempDir(), "credentials")
	g.Expect(os.WriteFile(file, []byte("[work]\naws_access_key_id = "+env["AWS_ACCESS_KEY_ID"]+"\naws_secret_access_key = "+env["AWS_SECRET_ACCESS_KEY"]+"\n"), 0o600)).To(Succeed())
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)

	cfg := load(g, map[string]string{"AWS_PROFILE": "work", "AWS_ENDPOINT_URL": server.URL}, aws.Options{Region: "eu-west-1"})
	g.Expect(signer(g, t, server, cfg)).To(Equal(userARN(server)))

	credentials, err := aws.FromEnv(map[string]string{"AWS_PROFILE": "home"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = aws.Load(t.Context(), credentials, aws.Options{Region: "eu-west-1"})
	g.Expect(err).To(MatchError(ContainSubstring("the manager has no profile home")))
	g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
}

func TestLoad_signsWithTheTokenOfTheProviderConfig(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("web")
	server.TrustToken(identity)
	web := func(token string) aws.Config {
		credentials, err := aws.FromEnv(map[string]string{
			"AWS_ENDPOINT_URL": server.URL, "AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "token", "AWS_REGION": "eu-west-1",
		}, map[string][]byte{"token": []byte(token)})
		g.Expect(err).NotTo(HaveOccurred())
		cfg, err := aws.Load(t.Context(), credentials, aws.Options{})
		g.Expect(err).NotTo(HaveOccurred())
		return cfg
	}

	g.Expect(signer(g, t, server, web(identity))).To(Equal(sessionARN(server, "web")))

	_, err := aws.SignToken(t.Context(), web("hunter2-unknown"), "demo", time.Now)
	g.Expect(aws.KindOf(err)).To(Equal(aws.KindBadCredentials))
	g.Expect(err.Error()).To(And(ContainSubstring("identity token"), Not(ContainSubstring("hunter2"))))
}

func TestLoad_signsWithTheManagersOwnToken(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	own, other := server.AddRole("own"), server.AddRole("other")
	server.TrustToken(identity)
	file := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(file, []byte(identity), 0o600)).To(Succeed())
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	t.Setenv("AWS_ROLE_ARN", own)
	t.Setenv("AWS_ROLE_SESSION_NAME", "capt")
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	options := aws.Options{Region: "eu-west-1"}

	g.Expect(signer(g, t, server, load(g, nil, options))).To(Equal(sessionARN(server, "own")))
	g.Expect(signer(g, t, server, load(g, map[string]string{"AWS_ROLE_ARN": other}, options))).To(Equal(sessionARN(server, "other")))
	g.Expect(signer(g, t, server, load(g, map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": file}, options))).To(Equal(sessionARN(server, "own")))
}

// The author of a provider config must not get the manager's token.
func TestLoad_sendsTheManagersTokenToNoOtherAddress(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("own")
	server.TrustToken(identity)
	file := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(file, []byte(identity), 0o600)).To(Succeed())
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	t.Setenv("AWS_ROLE_ARN", role)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	var requests atomic.Int32
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(attacker.Close)

	for _, env := range []map[string]string{
		{"AWS_ENDPOINT_URL": attacker.URL},
		{"AWS_ENDPOINT_URL": attacker.URL, "AWS_ROLE_ARN": role},
		{"AWS_ENDPOINT_URL_STS": attacker.URL, "AWS_WEB_IDENTITY_TOKEN_FILE": file},
	} {
		_, err := aws.SignToken(t.Context(), load(g, env, aws.Options{Region: "eu-west-1"}), "demo", time.Now)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(requests.Load()).To(BeZero())
	g.Expect(server.Calls("AssumeRoleWithWebIdentity")).To(Equal(3))
}

func TestLoad_readsNoFileThatAProviderConfigNames(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(file, []byte(identity), 0o600)).To(Succeed())
	for _, tt := range []struct {
		env  map[string]string
		text string
	}{
		{map[string]string{"AWS_ROLE_ARN": roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE": file}, "names a file that the manager does not read"},
		{map[string]string{"AWS_ROLE_ARN": roleARN}, "neither the provider config nor the manager has one"},
	} {
		credentials, err := aws.FromEnv(tt.env, nil)
		g.Expect(err).NotTo(HaveOccurred())

		_, err = aws.Load(t.Context(), credentials, aws.Options{Region: "eu-west-1"})

		g.Expect(err).To(MatchError(ContainSubstring(tt.text)))
		g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
	}
}

// A provider config names the endpoints, and the SDK reads whole answers.
func TestLoad_limitsAnswers(t *testing.T) {
	g := NewWithT(t)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		block := bytes.Repeat([]byte(" "), 1<<20)
		for range 100 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endpoint.Close)
	env := map[string]string{"AWS_ENDPOINT_URL": endpoint.URL, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
	policy := &dial.Policy{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	_, err := aws.LookUpVPC(t.Context(), load(g, env, aws.Options{Policy: policy}), vpcID, "demo", nil)
	g.Expect(err).To(MatchError(ContainSubstring("request body too large")))
}

func TestErrors_describeTheProblem(t *testing.T) {
	server := awstest.New(t)
	role := server.AddRole("deployer")
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	tests := []struct {
		name    string
		env     map[string]string
		role    string
		prepare func()
		kind    aws.Kind
		text    []string
	}{
		{
			name: "no credentials", env: map[string]string{"AWS_REGION": "eu-west-1"},
			kind: aws.KindNoCredentials, text: []string{"no credentials found (access disabled to EC2 IMDS", "AWS_ACCESS_KEY_ID", "IRSA"},
		},
		{
			name: "no credentials to assume a role with", env: map[string]string{"AWS_REGION": "eu-west-1"}, role: role,
			kind: aws.KindNoCredentials, text: []string{"no credentials found"},
		},
		{
			name: "a role of another account", env: server.Env(), role: "arn:aws:iam::999999999999:role/theirs",
			kind: aws.KindRoleDenied, text: []string{"assuming role arn:aws:iam::999999999999:role/theirs", "is not authorized to perform: sts:AssumeRole", "trust policy"},
		},
		{
			name: "an unknown key", env: given(server.Env(), "AWS_ACCESS_KEY_ID", keyID), role: role,
			kind: aws.KindBadCredentials, text: []string{"the access key does not exist"},
		},
		{
			name: "a wrong secret", env: given(server.Env(), "AWS_SECRET_ACCESS_KEY", secretKey), role: role,
			kind: aws.KindBadCredentials, text: []string{"the secret access key does not match"},
		},
		{
			name: "no server", env: given(server.Env(), "AWS_ENDPOINT_URL_STS", refused.URL), role: role,
			kind: aws.KindNetwork, text: []string{"assuming role", "does not respond", "connection refused"},
		},
		{
			name: "too many calls", env: server.Env(), role: role,
			prepare: func() { server.Fail("AssumeRole", 3, http.StatusBadRequest, "Throttling", "Rate exceeded") },
			kind:    aws.KindThrottled, text: []string{"AWS throttled the call"},
		},
		{
			name: "an internal error of AWS", env: server.Env(), role: role,
			prepare: func() {
				server.Fail("AssumeRole", 3, http.StatusInternalServerError, "InternalFailure", "An internal error has occurred.\nmore")
			},
			kind: aws.KindOther, text: []string{"assuming role", "InternalFailure: An internal error has occurred"},
		},
		{
			name: "expired keys", env: given(server.Env(), "AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z"),
			kind: aws.KindBadCredentials, text: []string{"the credentials have expired"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			if tt.prepare != nil {
				tt.prepare()
			}

			_, err := aws.SignToken(t.Context(), load(g, tt.env, aws.Options{RoleARN: tt.role}), "demo", time.Now)

			g.Expect(err).To(HaveOccurred())
			t.Log(err)
			g.Expect(aws.KindOf(err)).To(Equal(tt.kind))
			for _, text := range tt.text {
				g.Expect(err.Error()).To(ContainSubstring(text))
			}
			for _, noise := range []string{"request", "RequestID", "EXAMPLE0", "operation error", "hunter2", "\n"} {
				g.Expect(err.Error()).NotTo(ContainSubstring(noise))
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	g := NewWithT(t)
	g.Expect(aws.KindOf(nil)).To(BeEmpty())
	g.Expect(aws.KindOf(os.ErrClosed)).To(Equal(aws.KindOther))
}

func TestSignToken_retriesTemporaryErrors(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("deployer")
	server.Fail("AssumeRole", 2, http.StatusServiceUnavailable, "ServiceUnavailable", "")

	g.Expect(signer(g, t, server, load(g, server.Env(), aws.Options{RoleARN: role}))).To(Equal(sessionARN(server, "deployer")))
	g.Expect(server.Calls("AssumeRole")).To(Equal(3))
}

func TestSignToken_respectsTheDeadline(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	role := server.AddRole("deployer")
	release := make(chan struct{})
	server.Before(func(string) { <-release })
	t.Cleanup(func() { close(release) })
	web, err := aws.FromEnv(map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "token",
	}, map[string][]byte{"token": []byte(identity)})
	g.Expect(err).NotTo(HaveOccurred())
	webConfig, err := aws.Load(t.Context(), web, aws.Options{Region: "eu-west-1"})
	g.Expect(err).NotTo(HaveOccurred())

	for _, cfg := range []aws.Config{load(g, server.Env(), aws.Options{RoleARN: role}), webConfig} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := aws.SignToken(ctx, cfg, "demo", time.Now)
		cancel()

		g.Expect(aws.KindOf(err)).To(Equal(aws.KindNetwork))
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
	}
}

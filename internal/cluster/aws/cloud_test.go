package aws

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
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

	_, err := Cloud{Now: time.Now}.Token(t.Context(), none, awstest.Region, "", "demo")
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(waiting.Reason).To(Equal(controlplanev1.TokenFailedReason))
	g.Expect(waiting.RetryAfter).To(Equal(retryInterval))
	g.Expect(waiting.Message()).To(ContainSubstring("--aws-own-identity"))

	for _, env := range []map[string]string{
		{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/any"},
		{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/any", "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"},
		{"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"},
		{"AWS_PROFILE": "default"},
		{"AWS_DEFAULT_PROFILE": "default"},
	} {
		_, err := Cloud{Now: time.Now}.Token(t.Context(), &workspace.Credentials{Env: env}, awstest.Region, "", "demo")
		g.Expect(err).To(MatchError(ContainSubstring("--aws-own-identity")), "%v", env)
	}
	elsewhere := &workspace.Credentials{Env: map[string]string{"AWS_ENDPOINT_URL_STS": "https://sts.example.com"}}
	_, err = Cloud{OwnIdentity: true, Now: time.Now}.Token(t.Context(), elsewhere, awstest.Region, "", "demo")
	g.Expect(err).To(MatchError(ContainSubstring("AWS_ENDPOINT_URL")))

	token, err := Cloud{OwnIdentity: true, Now: time.Now}.Token(t.Context(), none, awstest.Region, "", "demo")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.Value.IsZero()).To(BeFalse())
}

func TestCloud_waitsWithTheReasonOfTheStepIfAWSRefuses(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("CreateServiceLinkedRole")
	_, err := Cloud{Now: time.Now}.EnsureSpotRole(t.Context(), &workspace.Credentials{Env: server.Env()}, awstest.Region)
	waiting, ok := fault.AsWaiting(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(waiting.Reason).To(Equal(controlplanev1.SpotRoleFailedReason))
}

// A template names the endpoint, and with it an address that only the manager may reach.
func TestCloud_callsAllowedEndpointsOnly(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	given := &workspace.Credentials{Env: server.Env()}
	_, err := Cloud{Policy: &dial.Policy{}, Now: time.Now}.EnsureSpotRole(t.Context(), given, awstest.Region)
	g.Expect(err).To(MatchError(ContainSubstring(dial.ErrDenied.Error())))

	loopback, err := dial.ParseNetworks([]string{"127.0.0.0/8", "::1"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Cloud{Policy: &dial.Policy{Allowed: loopback}, Now: time.Now}.EnsureSpotRole(t.Context(), given, awstest.Region)
	g.Expect(err).NotTo(HaveOccurred())
}

package aws

import (
	"context"
	"net/http"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws/awstest"
)

func configOf(g *WithT, env map[string]string) Config {
	credentials, err := FromEnv(env, nil)
	g.Expect(err).NotTo(HaveOccurred())
	cfg, err := Load(context.Background(), credentials, Options{})
	g.Expect(err).NotTo(HaveOccurred())
	return cfg
}

func TestEnsureSpotRole_createsItOnce(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)

	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeTrue())
	g.Expect(server.HasRole(SpotRoleName)).To(BeTrue())
	for range 3 {
		g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeFalse())
	}

	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(1))
	g.Expect(server.UserAgents()).To(HaveEach(ContainSubstring("capt")))
}

func TestEnsureSpotRole_leavesAnExistingRoleAlone(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.CreateRole(SpotRoleName)

	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeFalse())

	g.Expect(server.Calls("CreateServiceLinkedRole")).To(BeZero())
}

// All control planes of an account may observe that the role is missing.
func TestEnsureSpotRole_isSafeAtTheSameTime(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	const callers = 8
	var reads sync.WaitGroup
	reads.Add(callers)
	server.Before(func(action string) {
		if action == "CreateServiceLinkedRole" {
			reads.Wait()
		} else {
			reads.Done()
		}
	})
	created := make([]bool, callers)
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for i := range callers {
		cfg := configOf(g, server.Env())
		wait.Go(func() { created[i], errs[i] = EnsureSpotRole(t.Context(), cfg) })
	}
	wait.Wait()

	g.Expect(errs).To(HaveEach(BeNil()))
	g.Expect(count(created)).To(Equal(1))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(callers), "every caller tries")
}

func TestEnsureSpotRole_needsNoPermissionToRead(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("GetRole")
	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeTrue())

	other := awstest.New(t)
	other.Deny("GetRole")
	other.CreateRole(SpotRoleName)
	g.Expect(EnsureSpotRole(t.Context(), configOf(g, other.Env()))).To(BeFalse(), "a name that is taken means that the role exists")
	g.Expect(other.Calls("CreateServiceLinkedRole")).To(Equal(1))
}

func TestEnsureSpotRole_namesTheMissingPermissions(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("CreateServiceLinkedRole")

	_, err := EnsureSpotRole(t.Context(), configOf(g, server.Env()))
	t.Log(err)
	g.Expect(KindOf(err)).To(Equal(KindDenied))
	g.Expect(err).To(MatchError(And(
		ContainSubstring("allow iam:CreateServiceLinkedRole with the condition iam:AWSServiceName=spot.amazonaws.com"),
		ContainSubstring("spotServiceLinkedRole: Skip"), Not(ContainSubstring("iam:GetRole")), Not(ContainSubstring("EXAMPLE0")),
	)))

	server.Deny("GetRole")
	_, err = EnsureSpotRole(t.Context(), configOf(g, server.Env()))
	g.Expect(err).To(MatchError(ContainSubstring("iam:GetRole")))
}

// No other error means that the role does not exist.
func TestEnsureSpotRole_createsNothingIfTheRoleCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Fail("GetRole", attempts, http.StatusBadRequest, "Throttling", "Rate exceeded")

	_, err := EnsureSpotRole(t.Context(), configOf(g, server.Env()))

	g.Expect(KindOf(err)).To(Equal(KindThrottled))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(BeZero())

	_, err = EnsureSpotRole(t.Context(), configOf(g, map[string]string{"AWS_REGION": "eu-west-1"}))
	g.Expect(KindOf(err)).To(Equal(KindNoCredentials))
}

func count(values []bool) int {
	n := 0
	for _, value := range values {
		if value {
			n++
		}
	}
	return n
}

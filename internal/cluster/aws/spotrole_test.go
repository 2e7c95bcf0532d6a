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

	g.Expect(server.Calls("GetRole")).To(Equal(1), "that the role exists is cached")
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

func TestEnsureSpotRole_cachesEachAccountSeparately(t *testing.T) {
	g := NewWithT(t)
	one, two := awstest.New(t), awstest.New(t)

	g.Expect(EnsureSpotRole(t.Context(), configOf(g, one.Env()))).To(BeTrue())
	g.Expect(EnsureSpotRole(t.Context(), configOf(g, two.Env()))).To(BeTrue())

	g.Expect(two.HasRole(SpotRoleName)).To(BeTrue())

	credentials, err := FromEnv(two.Env(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	cfg, err := Load(t.Context(), credentials, Options{RoleARN: two.AddRole("elsewhere")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(EnsureSpotRole(t.Context(), cfg)).To(BeFalse())
	g.Expect(two.Calls("GetRole")).To(Equal(2), "the role may belong to another account")
}

func TestEnsureSpotRole_sendsOneRequestForManyClusters(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	const clusters = 50
	// The first request is held until every caller waits for it.
	waiting := make(chan struct{}, clusters)
	var once sync.Once
	server.Before(func(string) {
		once.Do(func() {
			for range clusters {
				<-waiting
			}
		})
	})
	created := make([]bool, clusters)
	errs := make([]error, clusters)
	var wait sync.WaitGroup
	for i := range clusters {
		cfg := configOf(g, server.Env())
		wait.Go(func() {
			waiting <- struct{}{}
			created[i], errs[i] = EnsureSpotRole(t.Context(), cfg)
		})
	}
	wait.Wait()

	g.Expect(errs).To(HaveEach(BeNil()))
	g.Expect(count(created)).To(Equal(1), "only one caller reports that it created the role")
	g.Expect(server.Calls("GetRole")).To(Equal(1))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(1))
}

// Managers do not share a cache, so all of them observe that the role is missing.
func TestEnsureSpotRole_isSafeBetweenManagers(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	const managers = 8
	var reads sync.WaitGroup
	reads.Add(managers)
	server.Before(func(action string) {
		if action == "CreateServiceLinkedRole" {
			reads.Wait()
		} else {
			reads.Done()
		}
	})
	created := make([]bool, managers)
	errs := make([]error, managers)
	var wait sync.WaitGroup
	for i := range managers {
		cfg := configOf(g, server.Env())
		wait.Go(func() { created[i], errs[i] = new(spotRoles).ensure(t.Context(), cfg) })
	}
	wait.Wait()

	g.Expect(errs).To(HaveEach(BeNil()))
	g.Expect(count(created)).To(Equal(1))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(managers), "every manager tries")
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

func TestEnsureSpotRole_doesNotCacheFailures(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("CreateServiceLinkedRole")
	_, err := EnsureSpotRole(t.Context(), configOf(g, server.Env()))
	g.Expect(err).To(HaveOccurred())
	server.Allow("CreateServiceLinkedRole")

	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeTrue())
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

func TestEnsureSpotRole_continuesIfItsFirstCallerIsCancelled(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	received, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server.Before(func(string) { once.Do(func() { close(received); <-release }) })
	roles := &spotRoles{}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := roles.ensure(ctx, configOf(g, server.Env())); first <- err }()
	<-received
	second := make(chan error, 1)
	go func() { _, err := roles.ensure(t.Context(), configOf(g, server.Env())); second <- err }()

	cancel()
	g.Eventually(first).Should(Receive(MatchError(context.Canceled)))
	close(release)

	g.Eventually(second).Should(Receive(BeNil()), "other callers still get a result")
	g.Expect(server.HasRole(SpotRoleName)).To(BeTrue())
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

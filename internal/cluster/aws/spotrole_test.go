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

	g.Expect(server.Calls("GetRole")).To(Equal(1), "what is known is not asked for again")
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

func TestEnsureSpotRole_remembersEachAccountForItself(t *testing.T) {
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
	g.Expect(two.Calls("GetRole")).To(Equal(2), "a role may be another account's")
}

func TestEnsureSpotRole_asksOnceForManyClusters(t *testing.T) {
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
	g.Expect(count(created)).To(Equal(1), "one event is enough")
	g.Expect(server.Calls("GetRole")).To(Equal(1))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(1))
}

// Managers that know nothing of each other all find the role missing.
func TestEnsureSpotRole_isSafeBetweenManagers(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	const managers = 8
	var looked sync.WaitGroup
	looked.Add(managers)
	server.Before(func(action string) {
		if action == "CreateServiceLinkedRole" {
			looked.Wait()
		} else {
			looked.Done()
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
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(Equal(managers), "all of them tried")
}

func TestEnsureSpotRole_needsNoPermissionToRead(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("GetRole")
	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeTrue())

	other := awstest.New(t)
	other.Deny("GetRole")
	other.CreateRole(SpotRoleName)
	g.Expect(EnsureSpotRole(t.Context(), configOf(g, other.Env()))).To(BeFalse(), "taken counts as there")
	g.Expect(other.Calls("CreateServiceLinkedRole")).To(Equal(1))
}

func TestEnsureSpotRole_saysWhatIsMissing(t *testing.T) {
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

func TestEnsureSpotRole_remembersNoFailure(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Deny("CreateServiceLinkedRole")
	_, err := EnsureSpotRole(t.Context(), configOf(g, server.Env()))
	g.Expect(err).To(HaveOccurred())
	server.Allow("CreateServiceLinkedRole")

	g.Expect(EnsureSpotRole(t.Context(), configOf(g, server.Env()))).To(BeTrue())
}

// Any other error is not read as "missing".
func TestEnsureSpotRole_createsNothingWhenItCannotLook(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	server.Fail("GetRole", attempts, http.StatusBadRequest, "Throttling", "Rate exceeded")

	_, err := EnsureSpotRole(t.Context(), configOf(g, server.Env()))

	g.Expect(KindOf(err)).To(Equal(KindThrottled))
	g.Expect(server.Calls("CreateServiceLinkedRole")).To(BeZero())

	_, err = EnsureSpotRole(t.Context(), configOf(g, map[string]string{"AWS_REGION": "eu-west-1"}))
	g.Expect(KindOf(err)).To(Equal(KindNoCredentials))
}

func TestEnsureSpotRole_goesOnWhenItsFirstCallerGivesUp(t *testing.T) {
	g := NewWithT(t)
	server := awstest.New(t)
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server.Before(func(string) { once.Do(func() { close(asked); <-release }) })
	roles := &spotRoles{}
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := roles.ensure(ctx, configOf(g, server.Env())); first <- err }()
	<-asked
	second := make(chan error, 1)
	go func() { _, err := roles.ensure(t.Context(), configOf(g, server.Env())); second <- err }()

	giveUp()
	g.Eventually(first).Should(Receive(MatchError(context.Canceled)))
	close(release)

	g.Eventually(second).Should(Receive(BeNil()), "others still get an answer")
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

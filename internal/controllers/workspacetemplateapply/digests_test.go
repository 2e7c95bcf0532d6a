package workspacetemplateapply

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

// A module decides how long it takes to decode the results of its runs, and any change of the
// workspace starts a reconcile.
func TestDigests_areReadOnce(t *testing.T) {
	g := NewWithT(t)
	s, kept := newScope("hello"), &digests{}
	secret := s.addRun(g, terraform.OperationPlanAndApply, hostileResult()).secret
	secret.UID, secret.ResourceVersion = "u", "1"
	read := func(version string) *runRecord {
		copied := secret.DeepCopy()
		copied.ResourceVersion = version
		run := &runRecord{id: "hello-r1", secret: copied, digests: kept}
		g.Expect(run.result()).To(HaveField("Outcome", terraform.OutcomeFailed))
		return run
	}
	first := read("1")
	first.result().FinishedAt = first.result().FinishedAt.AddDate(1, 0, 0)
	var again *runRecord
	g.Expect(memorytest.Allocated(func() { again = read("1") })).To(BeNumerically("<", 256<<10))
	g.Expect(again.hasLockFile).To(BeTrue())
	g.Expect(again.result().FinishedAt).To(Equal(s.now), "each reconcile has its own")
	g.Expect(memorytest.Allocated(func() { read("2") })).To(BeNumerically(">", 1<<20), "it has changed")

	small := s.addRun(g, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed})
	small.secret.UID, small.secret.ResourceVersion, small.digests = "v", "1", kept
	g.Expect(small.result()).NotTo(BeNil())
	g.Expect(kept.known).To(HaveLen(2), "a small result is read quickly")
	for i := range 2 * maxDigests {
		first.secret.UID = types.UID(fmt.Sprint(i))
		kept.keep(first)
	}
	g.Expect(len(kept.known)).To(BeNumerically("<=", maxDigests))
}

// Results that the cache does not have are read from the API server.
func TestReadDigests_readsAVersionOnce(t *testing.T) {
	g := NewWithT(t)
	cached, stored := largeRun(g, "capt-run-a-r1", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	cached.UID, cached.ResourceVersion = "u", "1"
	r := &Reconciler{Reader: fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(stored).Build()}
	for range 2 {
		run := &runRecord{id: "a-r1", secret: cached, digests: &r.digests}
		g.Expect(r.readDigests(t.Context(), []*runRecord{run})).To(Succeed())
		g.Expect(run.result()).To(HaveField("Outcome", terraform.OutcomeSucceeded))
		r.Reader = fake.NewClientBuilder().WithScheme(testScheme()).Build()
	}
}

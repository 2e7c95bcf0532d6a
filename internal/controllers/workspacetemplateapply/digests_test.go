package workspacetemplateapply

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
	g.Expect(kept.known).To(HaveLen(maxDigests), "a new one replaces one, not all")
}

// Results that the cache does not have are read from the API server. Only a new run needs the
// lock file in them.
func TestReadDigests_readsAVersionOnce(t *testing.T) {
	g := NewWithT(t)
	cached, stored := largeRun(g, "capt-run-a-r1", terraform.Result{Outcome: terraform.OutcomeSucceeded, LockFile: []byte("locked")})
	cached.UID, cached.ResourceVersion = "u", "1"
	reads := 0
	r := &Reconciler{Reader: interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(stored).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return w.Get(ctx, key, obj, opts...)
		},
	})}
	s := newScope("a")
	for range 3 {
		s.runs = []*runRecord{{id: "a-r1", number: 1, secret: cached, digests: &r.digests}}
		g.Expect(r.readDigests(t.Context(), s.runs)).To(Succeed())
		g.Expect(s.runs[0].result()).To(HaveField("Outcome", terraform.OutcomeSucceeded))
	}
	g.Expect(reads).To(Equal(1))
	request, err := r.request(t.Context(), s, decision{operation: terraform.OperationPlan})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(request.LockFile)).To(Equal("locked"))
	g.Expect(reads).To(Equal(2))

	small := s.addRun(g, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeFailed, LockFile: []byte("newer")})
	g.Expect(small.result()).NotTo(BeNil())
	request, err = r.request(t.Context(), s, decision{operation: terraform.OperationPlan})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(request.LockFile)).To(Equal("newer"))
	g.Expect(reads).To(Equal(2), "a newer run has a lock file")
}

package workspacetemplateapply

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/appthrust/capt/internal/terraform"
)

// isFree reports whether no goroutine has the turn.
func isFree(t *turn) bool { return len(t.channel()) == 0 }

// A connection may be lost without notice, and a manager may be stopped meanwhile.
func TestWhole_doesNotStopOthersForLong(t *testing.T) {
	g := NewWithT(t)
	cached, _ := largeRun(g, "capt-run-a-r1", terraform.Result{Outcome: terraform.OutcomeSucceeded})
	run := &runRecord{id: "a-r1", secret: cached}
	var remaining time.Duration
	r := &Reconciler{Reader: interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme()).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			deadline, found := ctx.Deadline()
			g.Expect(found).To(BeTrue(), "the request has no limit")
			remaining = time.Until(deadline)
			return context.DeadlineExceeded
		},
	})}
	_, _, err := r.whole(t.Context(), run)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(remaining).To(BeNumerically("<=", 10*time.Second))
	g.Expect(isFree(&r.large)).To(BeTrue())

	g.Expect(r.large.begin(t.Context())).To(Succeed())
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, _, err = r.whole(stopped, run)
	g.Expect(err).To(MatchError(context.Canceled), "it does not wait for the caller that has the turn")
	r.large.end()
	g.Expect(isFree(&r.large)).To(BeTrue())
}

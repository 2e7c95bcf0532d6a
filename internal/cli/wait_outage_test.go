package cli_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// unreachableAfter returns a client that shows a workspace, loses the connection for the given
// time, and then shows it as it was, and later as it is at the end.
func unreachableAfter(first, last *infrav1.WorkspaceTemplateApply, outage, later time.Duration) client.WithWatch {
	var lost time.Time
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(first.DeepCopy()).Build()
	return interceptor.NewClient(c, interceptor.Funcs{
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(2, false)
			switch {
			case lost.IsZero():
				lost = time.Now()
				w.Add(first.DeepCopy())
				w.Stop()
			case time.Since(lost) < outage:
				return nil, &url.Error{Op: "Get", URL: "https://10.0.0.1:6443", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
			default:
				w.Add(first.DeepCopy())
				change := time.AfterFunc(later, func() { w.Modify(last.DeepCopy()) })
				context.AfterFunc(ctx, func() {
					change.Stop()
					w.Stop()
				})
			}
			return w, nil
		},
	})
}

// What a workspace waited for may have changed while nothing could be observed, so the times
// of a wait count again after an outage.
func TestWait_countsAgainAfterAnOutage(t *testing.T) {
	applied := workspace("net")
	applied.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "1 resource")
	blocked := workspace("net")
	blocked.Status.Conditions = condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForTemplateReason, "WorkspaceTemplate default/greting does not exist")
	for name, tc := range map[string]struct {
		first  *infrav1.WorkspaceTemplateApply
		outage time.Duration
		later  time.Duration
		fails  string
	}{
		"blocked for a moment": {blocked, 0, 5 * time.Second, ""},
		"blocked before":       {blocked, time.Minute, 5 * time.Second, ""},
		"still blocked":        {blocked, time.Minute, 15 * time.Second, "net cannot start a run: WaitingForTemplate: WorkspaceTemplate default/greting does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var out bytes.Buffer
				err := cli.WaitUntil(t.Context(), unreachableAfter(tc.first, applied, tc.outage, tc.later), tc.first, &out,
					func(a *infrav1.WorkspaceTemplateApply) bool {
						return len(a.Status.Conditions) > 0 && a.Status.Conditions[0].Status == metav1.ConditionTrue
					})
				if tc.fails == "" {
					g.Expect(err).NotTo(HaveOccurred(), out.String())
				} else {
					g.Expect(err).To(MatchError(tc.fails))
				}
				if tc.outage > 0 {
					g.Expect(out.String()).To(ContainSubstring("Management cluster has been unreachable since"))
				}
			})
		})
	}
}

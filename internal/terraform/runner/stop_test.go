package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform/record"
)

// interrupt does what the manager does when a user cancels a run.
func (a *api) interrupt(g Gomega, runID string) {
	text, err := record.InterruptPatch()
	g.Expect(err).NotTo(HaveOccurred())
	var patch map[string]any
	g.Expect(json.Unmarshal(text, &patch)).To(Succeed())
	a.mu.Lock()
	defer a.mu.Unlock()
	code, _ := a.serve(http.MethodPatch, secretsPath+"/"+record.SecretName(runID), patch)
	g.Expect(code).To(Equal(http.StatusOK))
}

func TestApplyContext(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration
		stop    func(g Gomega, a *api, stop func())
		// want is how the context of the apply ends, nil if it does not.
		want error
		log  string
	}{
		"a stop lets the apply complete": {
			timeout: time.Hour, stop: func(_ Gomega, _ *api, stop func()) { stop() }, log: "The run is stopped. The apply in progress is completed first",
		},
		"a cancel ends it": {
			timeout: time.Hour, want: context.Canceled,
			stop: func(g Gomega, a *api, stop func()) { a.interrupt(g, "hello-r2"); stop() },
		},
		"a cancel after a stop ends it": {
			timeout: time.Hour, want: context.Canceled,
			stop: func(g Gomega, a *api, stop func()) {
				stop()
				g.Eventually(func() int { return a.count(http.MethodGet) }).Should(BeNumerically(">", 0))
				a.interrupt(g, "hello-r2")
			},
		},
		"the deletion of the record ends it": {
			timeout: time.Hour, want: context.Canceled,
			stop: func(_ Gomega, a *api, stop func()) {
				a.mu.Lock()
				delete(a.objects, secretsPath+"/"+record.SecretName("hello-r2"))
				a.mu.Unlock()
				stop()
			},
		},
		"an API server that does not answer is no cancel": {
			timeout: time.Hour, log: "The apply in progress is completed first",
			stop: func(_ Gomega, a *api, stop func()) { a.refuse(http.MethodGet, "", unavailable); stop() },
		},
		"without a timeout a stop ends it": {
			want: context.Canceled, stop: func(_ Gomega, _ *api, stop func()) { stop() },
		},
		"twice the timeout ends it": {
			timeout: 500 * time.Millisecond, want: context.DeadlineExceeded, log: "Warning: the run exceeds its timeout of 500ms", stop: func(Gomega, *api, func()) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			a, r := newAPI(t)
			a.store(g, secretsPath, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: record.SecretName("hello-r2")}})
			run := newExecution()
			run.request.Timeout, run.result.StartedAt = test.timeout, time.Now()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			interrupted, release := r.secret.interruption(ctx)
			defer release()
			run.interrupted = interrupted
			if test.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.timeout)
				defer cancel()
			}
			applying, done := run.applyContext(ctx)
			defer done()
			test.stop(g, a, stop)
			g.Eventually(func() string { return string(run.report.log.Bytes()) }).Should(ContainSubstring(test.log))
			if test.want == nil {
				g.Eventually(func() int { return a.count(http.MethodGet) }).Should(BeNumerically(">", 1), "it asks again whether the run is canceled")
				g.Expect(applying.Err()).NotTo(HaveOccurred())
				return
			}
			g.Eventually(applying.Done()).Should(BeClosed())
			progress, _ := run.report.take()
			g.Expect(progress.InterruptAt.IsZero()).To(Equal(!errors.Is(test.want, context.DeadlineExceeded)), "the condition has it, too")
			g.Expect(applying.Err()).To(MatchError(test.want))
		})
	}
}

// What has not started is not worth the wait.
func TestApplyContext_afterAStop(t *testing.T) {
	g := NewWithT(t)
	run := newExecution()
	run.request.Timeout, run.result.StartedAt = time.Hour, time.Now()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	applying, done := run.applyContext(ctx)
	defer done()
	g.Expect(applying.Err()).To(MatchError(context.Canceled))
}

package workspacetemplateapply

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// staleCache is a client whose cache may lack the second run and the changes of the workspace.
// Writes of whole statuses may fail.
type staleCache struct {
	lacksRun, refuses bool
	workspace         *infrav1.WorkspaceTemplateApply
}

func (s *staleCache) over(server client.WithWatch) client.Client {
	return interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if apply, ok := obj.(*infrav1.WorkspaceTemplateApply); ok && s.workspace != nil {
				s.workspace.DeepCopyInto(apply)
				return nil
			}
			return w.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			if secrets, ok := list.(*corev1.SecretList); ok && s.lacksRun {
				secrets.Items = slices.DeleteFunc(secrets.Items, func(secret corev1.Secret) bool { return secret.Name == record.SecretName("hello-r2") })
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if body, err := patch.Data(obj); s.refuses && (err != nil || len(body) > 200) {
				return errRefused
			}
			return w.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

// The status with the result of a run was not written after the next run was started. Nor has
// the cache the next run, so that the first one is recorded again.
func TestReconcile_keepsTheSlotOfARunThatTheCacheLacks(t *testing.T) {
	for name, workspaceIsStale := range map[string]bool{"the cache has the workspace": false, "the cache lacks its changes, too": true} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply())...)
			running := func() int { n, _ := c.reconciler.queue.Len(); return n }
			c.reconcile()
			c.finish("hello-r1", outputsResult)
			c.request(newRunOperation("now"))
			before, cache := c.get(), &staleCache{refuses: true}
			c.reconciler.Client, c.reconciler.Reader = cache.over(c.server), c.server
			c.frame = c.reconciler.build().router()
			reconcile := func() error {
				_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("hello")})
				return err
			}
			c.Expect(reconcile()).To(MatchError(errRefused))
			c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
			c.Expect(c.get().Status.History).To(BeEmpty())
			c.Expect(running()).To(Equal(1))

			cache.lacksRun, cache.refuses = true, false
			if workspaceIsStale {
				cache.workspace = before
			}
			c.reconciler.Runners[infrav1.ExecutorProcess] = forgetting{c, func() error { return errRefused }}
			c.Expect(reconcile()).To(MatchError(errRefused))
			c.Expect(running()).To(Equal(1), "the second run has it")

			cache.lacksRun, cache.workspace = false, nil
			c.reconciler.Runners[infrav1.ExecutorProcess] = c
			c.reconcile()
			c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeNoChanges, State: c.stateInfo()})
			c.reconcile()
			c.Expect(c.started).To(HaveLen(2))
			c.Expect(running()).To(BeZero())
		})
	}
}

// A user may delete the Secret of a run before the cache has it.
func TestReleaseSlot_ofARunThatWasDeleted(t *testing.T) {
	c := newTestController(t, newApply())
	s := newScope("hello")
	s.Apply = c.get()
	c.reconciler.build().numbers.SetActive(s.Workspace, 7)
	c.reconciler.queue.Hold(s.Slot(), s.Group())
	c.reconciler.releaseSlot(t.Context(), s.Apply, s)
	running, _ := c.reconciler.queue.Len()
	c.Expect(running).To(BeZero())
	c.Expect(c.reconciler.build().numbers.LastActive(s.Workspace).Number).To(BeZero())
}

// The pod of a run may need longer to start than the clock of its node is behind. The start of
// the run is then after the creation of its Secret.
func TestRecordRun_endsAfterItWasSeenRunning(t *testing.T) {
	created, seen := noon.Add(-30*time.Minute), noon.Add(-40*time.Second)
	for name, tc := range map[string]struct {
		finished, want time.Duration
		other          int64
	}{
		"ten minutes behind":            {finished: -10 * time.Minute, want: 0},
		"it ended since":                {finished: -20 * time.Second, want: -20 * time.Second},
		"the cache is a little behind":  {finished: -90 * time.Second, want: -90 * time.Second},
		"another run was seen, not it":  {finished: -10 * time.Minute, want: -10 * time.Minute, other: 7},
		"the manager was not there yet": {finished: -10 * time.Minute, want: -10 * time.Minute, other: -1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, r := newScope("hello"), recording(func() error { return nil })
			run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
			run.Secret.CreationTimestamp = metav1.NewTime(created)
			if tc.other >= 0 {
				s.Now = seen
				r.build().numbers.SetActive(s.Workspace, max(tc.other, run.Number))
				s.Now = noon
			}
			finished := noon.Add(tc.finished)
			g.Expect(record.SetResult(run.Secret, &terraform.Result{
				Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, StartedAt: finished.Add(-5 * time.Minute), FinishedAt: finished,
			})).To(Succeed())
			g.Expect(r.build().recorder.RecordRun(t.Context(), s.Status, run)).To(Succeed())
			g.Expect(s.Apply.Status.Failure.NextAt.Time).To(Equal(noon.Add(tc.want + 15*time.Second)))
			g.Expect(s.Apply.Status.History[0].Duration.Duration).To(Equal(5 * time.Minute))
		})
	}
}

func TestAttend_remembersThatARunHasNotEnded(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	s := execution.NewScope(&runs.Workspace{Apply: c.get()})
	c.Expect(c.reconciler.build().numbers.LastActive(s.Workspace)).To(Equal(runs.ActiveRun{Number: 1, Seen: noon}))
	c.reconciler.Now = func() time.Time { return noon.Add(time.Minute) }
	c.reconcile()
	c.Expect(c.reconciler.build().numbers.LastActive(s.Workspace)).To(Equal(runs.ActiveRun{Number: 1, Seen: noon.Add(time.Minute)}))
}

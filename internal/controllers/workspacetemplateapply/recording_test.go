package workspacetemplateapply

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
)

// forgetting is a runner that calls a function to forget a run.
type forgetting struct {
	terraform.Runner
	forget func() error
}

func (f forgetting) Forget(context.Context, terraform.Run) error { return f.forget() }

// recording returns a reconciler that records runs. It calls forget for each of them.
func recording(forget func() error) *Reconciler {
	return &Reconciler{
		Client:  fake.NewClientBuilder().WithScheme(testScheme()).WithIndex(&corev1.Secret{}, runs.WorkspaceIndex, runs.WorkspaceOf).Build(),
		Runners: map[infrav1.Executor]terraform.Runner{infrav1.ExecutorProcess: forgetting{forget: forget}},
		queue:   queue.New(queue.Limits{Total: 1}, time.Now, func(queue.Key) {}),
	}
}

// A write of the status has failed after the next run was started.
func TestRecordRun_keepsTheSlotOfTheNextRun(t *testing.T) {
	refused := errors.New("refused")
	for name, next := range map[string]func(g Gomega, s *execution.Scope){
		"it runs": func(g Gomega, s *execution.Scope) {
			startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
		},
		"the cache does not have it":  func(_ Gomega, s *execution.Scope) { s.Apply.Status.Runs++ },
		"there is none: no slot held": func(Gomega, *execution.Scope) {},
	} {
		g := NewWithT(t)
		s, r := newScope("hello"), recording(func() error { return refused })
		run := addRun(g, s, terraform.OperationPlanAndApply, success)
		next(g, s)
		r.queue.Hold(s.Slot(), queue.Group{})
		g.Expect(r.build().recorder.RecordRun(t.Context(), s.Status, run)).To(MatchError(refused))
		running, _ := r.queue.Len()
		g.Expect(running == 1).To(Equal(s.NextNumber() == 3), name)
	}
}

// recordWithFailures starts a run, ends it and records it, with each of the requests of the
// reconcile that records it failing in turn.
func recordWithFailures(t *testing.T, requested *infrav1.WorkspaceOperation, result terraform.Result, check func(c *testController)) {
	for failAt := 1; ; failAt++ {
		rescued := newSecret(objectMeta(record.ChunkName(rescuedName, 0)))
		rescued.Type = corev1.SecretTypeOpaque
		rescued.Labels = map[string]string{infrav1.WorkspaceLabel: "hello", infrav1.ComponentLabel: record.ComponentRescue, infrav1.RunLabel: "hello-r1"}
		c := newTestController(t, append(values(), newApply(), rescued)...)
		c.reconcile()
		c.finish("hello-r1", outputsResult)
		c.reconcile()
		c.request(requested.DeepCopy())
		c.reconcile()
		c.Expect(c.started).To(Equal([]string{"hello-r1", "hello-r2"}))
		result.State = c.stateInfo()
		c.finish("hello-r2", result)
		c.calls, c.failAt = 0, failAt
		c.reconcile()
		if c.failAt > c.calls {
			break
		}
		c.reconcile()
		c.Expect(c.get().Status.History[0].ID).To(Equal("hello-r2"))
		check(c)
	}
}

var rescuedName = record.RescueName("hello-r1", []byte("{}"))

// The mark of a rescued state is all that keeps later runs from saving it. The status must not
// have the run before the mark is set.
func TestRecordRun_supersedesRescuedStatesAfterAnyFailure(t *testing.T) {
	recordWithFailures(t, newRestoreOperation("restore", "snap"), terraform.Result{Outcome: terraform.OutcomeSucceeded}, func(c *testController) {
		c.Expect(c.operation("hello-r2")).To(Equal(terraform.OperationRestoreState))
		c.Expect(c.started).To(HaveLen(3), "the inputs are planned again")
		request, err := record.Request(c.runSecret(c.started[2]))
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(request.Rescued).To(BeEmpty())
		var rescued corev1.Secret
		c.Expect(c.server.Get(t.Context(), key(record.ChunkName(rescuedName, 0)), &rescued)).To(Succeed())
		c.Expect(rescued.Annotations).To(HaveKeyWithValue(record.SupersededAnnotation, "hello-r2"))
	})
}

func TestRecordRun_deletesSavedStatesAfterAnyFailure(t *testing.T) {
	saved := terraform.Result{Outcome: terraform.OutcomeSucceeded, Saved: []string{rescuedName}}
	recordWithFailures(t, newRunOperation("now"), saved, func(c *testController) {
		c.Expect(c.secrets()).NotTo(ContainElement(record.ChunkName(rescuedName, 0)))
		c.Expect(c.get().Status.History).To(HaveLen(2))
	})
}

// The clock of a node may be behind, for example after it was suspended.
func TestRecordRun_endsAfterItsCreation(t *testing.T) {
	created := noon.Add(-20 * time.Minute)
	end := func(g Gomega, s *execution.Scope, operation terraform.Operation, outcome terraform.Outcome) {
		run := startRun(g, s, decision.Decision{Operation: operation})
		run.Secret.CreationTimestamp = metav1.NewTime(created)
		g.Expect(record.SetResult(run.Secret, &terraform.Result{
			Outcome: outcome, Class: terraform.ClassTransient, StartedAt: created.Add(-time.Hour), FinishedAt: created.Add(-time.Hour + 19*time.Minute),
		})).To(Succeed())
		g.Expect(recording(func() error { return nil }).build().recorder.RecordRun(t.Context(), s.Status, run)).To(Succeed())
	}
	g := NewWithT(t)
	s := newScope("hello")
	end(g, s, terraform.OperationPlanAndApply, terraform.OutcomeFailed)
	g.Expect(s.Apply.Status.Failure.NextAt.Time).To(Equal(noon.Add(-time.Minute + 15*time.Second)))
	g.Expect(s.Apply.Status.History[0].StartedAt.Time).To(Equal(created))
	g.Expect(s.Apply.Status.History[0].Duration.Duration).To(Equal(19 * time.Minute))

	s = newScope("hello")
	s.Inputs.Policy.DriftAction, s.Inputs.Policy.DriftInterval = infrav1.DriftReport, 10*time.Minute
	s.Apply.Status.AppliedAt = metav1.NewTime(created)
	end(g, s, terraform.OperationCheckDrift, terraform.OutcomeNoChanges)
	due, _ := s.Situation().NextDriftCheck()
	g.Expect(due).To(BeTemporally(">", noon))

	moved := newScope("hello")
	run := addRun(g, moved, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
	run.Secret.CreationTimestamp, moved.Apply.Status.Runs = metav1.NewTime(noon.Add(time.Hour)), 0
	moved.Now = noon.Add(2 * time.Hour)
	g.Expect(recording(func() error { return nil }).build().recorder.RecordRun(t.Context(), moved.Status, run)).To(Succeed())
	g.Expect(moved.Apply.Status.AppliedAt.Time).To(Equal(noon), "the Secret of a run that was moved is younger than the run")
}

// A run reports its own times. With an end in the past, the next run would start at once, again
// and again.
func TestRecordRun_endsAfterItsStart(t *testing.T) {
	created, past := noon.Add(-time.Minute), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct{ started, finished, want time.Time }{
		"ends before its start": {noon.Add(-time.Second), past, noon.Add(-time.Second)},
		"is all in the past":    {past, past, created},
		"ends in the year 0":    {past, past.AddDate(-1, 0, 0), created},
		"starts in the past":    {past, noon, noon},
		"starts in the future":  {noon.AddDate(1000, 0, 0), past, noon},
		"is all in the future":  {noon.AddDate(1000, 0, 0), noon.AddDate(2000, 0, 0), noon},
		"took its time":         {created.Add(time.Second), noon.Add(-2 * time.Second), noon.Add(-2 * time.Second)},
	} {
		for _, operation := range []terraform.Operation{terraform.OperationPlanAndApply, terraform.OperationCheckDrift} {
			t.Run(name+" "+string(operation), func(t *testing.T) {
				g := NewWithT(t)
				s := newScope("hello")
				s.Inputs.Policy.DriftAction, s.Inputs.Policy.DriftInterval = infrav1.DriftReport, 10*time.Minute
				s.Apply.Status.AppliedAt = metav1.NewTime(created.Add(-time.Hour))
				run := startRun(g, s, decision.Decision{Operation: operation})
				run.Secret.CreationTimestamp = metav1.NewTime(created)
				g.Expect(record.SetResult(run.Secret, &terraform.Result{
					Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, StartedAt: tt.started, FinishedAt: tt.finished,
				})).To(Succeed())
				g.Expect(recording(func() error { return nil }).build().recorder.RecordRun(t.Context(), s.Status, run)).To(Succeed())
				g.Expect(s.Apply.Status.History[0].Duration.Duration).To(And(BeNumerically(">=", 0), BeNumerically("<=", time.Minute)))
				if operation == terraform.OperationCheckDrift {
					g.Expect(s.Apply.Status.Drift.FailedAt.Time).To(BeTemporally("==", tt.want))
					g.Expect(decision.CheckFailed(s.Apply.Status.Drift)).To(BeTrue())
					due, _ := s.Situation().NextDriftCheck()
					g.Expect(due).To(BeTemporally(">", tt.want))
					return
				}
				g.Expect(s.Apply.Status.Failure.NextAt.Time).To(BeTemporally("==", tt.want.Add(15*time.Second)))
			})
		}
	}
}

// The cache is checked often for the snapshot of a run that has just ended.
func TestIsUnpruned_onlyAfterTheRun(t *testing.T) {
	for finished, want := range map[time.Time]bool{
		noon: true, noon.Add(-30 * time.Second): true, noon.Add(30 * time.Second): true, noon.Add(-2 * time.Minute): false, noon.AddDate(1000, 0, 0): false,
	} {
		g := NewWithT(t)
		s := newScope("hello")
		run := addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, Snapshot: "x", StartedAt: finished, FinishedAt: finished})
		s.Runs = []*runs.Run{run}
		g.Expect(cleanup.IsUnpruned(s.Workspace, nil)).To(Equal(want), finished.String())
	}
}

// Backends other than that of Kubernetes are locked after the initialisation, so that runs may
// be lost without taking the lock from those before them.
func TestSurplusRuns_keepsTheRunThatMayHoldTheLock(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	lost := terraform.Result{Outcome: runs.OutcomeLost}
	addRun(g, s, terraform.OperationPlanAndApply, success)
	oldest := addRun(g, s, terraform.OperationPlanAndApply, lost)
	addRun(g, s, terraform.OperationPlanAndApply, lost)
	locked := addRun(g, s, terraform.OperationPlanAndApply, lost)
	patch, err := record.StatePatch(terraform.StateInfo{Lineage: "l", Serial: 1})
	g.Expect(err).NotTo(HaveOccurred())
	mergeInto(g, locked.Secret, patch)
	for range cleanup.KeptLost + 5 {
		addRun(g, s, terraform.OperationPlanAndApply, lost)
	}
	surplus := cleanup.SurplusRuns(s.Workspace)
	g.Expect(surplus).To(HaveLen(6))
	g.Expect(surplus).NotTo(ContainElement(locked), "it was about to change the state")
	g.Expect(surplus).NotTo(ContainElement(oldest))
}

// A run that cannot be recorded is recorded again and again.
func TestRecordRun_isCountedOnce(t *testing.T) {
	history.RegisterMetrics(nil)
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	secret := c.runSecret("hello-r1")
	c.Expect(record.SetResult(secret, &terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, StartedAt: noon, FinishedAt: noon})).To(Succeed())
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	failures := measure(c, "capt_run_failures_total", string(terraform.ClassTransient))
	refuse := true
	c.reconciler.Client = interceptor.NewClient(c.server, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if refuse {
				return errRefused
			}
			return w.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	c.frame = c.reconciler.build().router()
	for range 3 {
		_, err := c.frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("hello")})
		c.Expect(err).To(MatchError(errRefused))
	}
	refuse = false
	c.reconcile()
	c.Expect(c.get().Status.History).To(HaveLen(1))
	c.Expect(measure(c, "capt_run_failures_total", string(terraform.ClassTransient))).To(Equal(failures + 1))
}

func TestRecordRun_countsEachOfSeveralRunsOnce(t *testing.T) {
	g := NewWithT(t)
	history.RegisterMetrics(nil)
	s, r := newScope("hello"), recording(func() error { return nil })
	for range 2 {
		addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeTimedOut})
	}
	before := max(measure(g, "capt_run_duration_seconds", "Plan", "TimedOut"), 0)
	for range 3 {
		s.Apply.Status.History = nil
		g.Expect(r.build().recorder.History(t.Context(), s.Status)).To(Succeed())
	}
	g.Expect(s.Apply.Status.History).To(HaveLen(2))
	g.Expect(measure(g, "capt_run_duration_seconds", "Plan", "TimedOut")).To(Equal(before + 2))
}

func TestOutputs_areNotSentIfTheyExceedASecret(t *testing.T) {
	g := NewWithT(t)
	s, r, calls := newScope("hello"), &Reconciler{}, 0
	s.Inputs.ConnectionSecret = "outputs"
	r.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme()).Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			calls++
			return nil
		},
	})
	result := terraform.Result{Outcome: terraform.OutcomeSucceeded, Outputs: map[string]terraform.Output{"a": {Value: runs.MustJSON(strings.Repeat("x", 512<<10))}}}
	addRun(g, s, terraform.OperationPlanAndApply, result)
	g.Expect(r.build().publisher.Outputs(t.Context(), s.Resolved)).To(Succeed())
	g.Expect(calls).To(Equal(1))

	result.Outputs["b"], result.Outputs["c"] = result.Outputs["a"], result.Outputs["a"]
	addRun(g, s, terraform.OperationPlanAndApply, result)
	g.Expect(r.build().publisher.Outputs(t.Context(), s.Resolved)).To(MatchError(ContainSubstring("exceed the size of Secret outputs")))
	g.Expect(calls).To(Equal(1))
}

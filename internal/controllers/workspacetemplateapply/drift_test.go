package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Drift that cannot be repaired must not look like no drift.
func TestDrift_isShownWhileItsRepairWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		approval infrav1.ApprovalMode
		result   terraform.Result
		want     string
	}{
		"for approval":  {infrav1.ApprovalManual, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: &terraform.PlanSummary{ID: devPlan, Change: 1}}, "False WaitingForApproval"},
		"for a policy":  {infrav1.ApprovalAuto, terraform.Result{Outcome: terraform.OutcomeDenied, Plan: &terraform.PlanSummary{ID: devPlan, Change: 1}, Violations: []terraform.PolicyViolation{{Kind: "WorkspacePolicy", Policy: "p", Rule: "r", Action: terraform.PolicyDeny, Message: "No"}}}, "False PolicyDenied"},
		"for a user":    {infrav1.ApprovalAuto, terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: &terraform.PlanSummary{ID: devPlan, Destroy: 1}, Blocked: []string{"a.b"}}, "False ProtectedResource"},
		"for a retry":   {infrav1.ApprovalAuto, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient}, "False Retrying"},
		"after failing": {infrav1.ApprovalAuto, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}, "False RunFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftRepair}
				a.Spec.Protect = []infrav1.ProtectPattern{"a"}
			}))...)
			c.reconcile()
			c.Expect(meta.FindStatusCondition(c.get().Status.Conditions, infrav1.NoDriftCondition)).To(BeNil(), "nothing exists that could drift")
			c.finish("hello-r1", outputsResult)
			c.reconcile()
			c.expect(infrav1.NoDriftCondition, "True NoDrift")

			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Approval = tc.approval })
			c.reconciler.Now = func() time.Time { return noon.Add(2 * time.Hour) }
			c.reconcile()
			c.Expect(c.operation("hello-r2")).To(Equal(terraform.OperationCheckDrift))
			c.finish("hello-r2", terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: []terraform.Change{{Address: "a.b", Action: terraform.ActionUpdate}}, State: c.stateInfo()})
			c.reconcile()
			c.Expect(c.started).To(ContainElement("hello-r3"))
			c.Expect(c.expect(infrav1.NoDriftCondition, "False DriftDetected")).To(ContainSubstring("a.b"), "while the repair runs")

			tc.result.State = c.stateInfo()
			c.finish("hello-r3", tc.result)
			c.reconciler.Now = func() time.Time { return noon }
			c.reconcile()
			c.expect(infrav1.AppliedCondition, tc.want)
			c.expect(infrav1.NoDriftCondition, "False DriftDetected")
			before := c.get().ResourceVersion
			c.reconcile()
			c.Expect(c.get().ResourceVersion).To(Equal(before), "nothing is written at rest")
		})
	}
}

func TestGuest_showsTheDriftOfItsHostWhileTheRepairWaits(t *testing.T) {
	c := newGrantController(t, both...)
	c.applyHosted()
	c.expect(infrav1.NoDriftCondition, "True NoDrift")
	report := func(generation int64, conditions ...metav1.Condition) {
		hosted := c.hosted()
		for _, condition := range conditions {
			condition.ObservedGeneration = generation
			meta.SetStatusCondition(&hosted.Status.Conditions, condition)
		}
		c.Expect(c.server.Status().Update(t.Context(), hosted)).To(Succeed())
		c.reconcile()
	}
	waits := metav1.Condition{Type: infrav1.AppliedCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason}
	drifted := metav1.Condition{Type: infrav1.NoDriftCondition, Status: metav1.ConditionFalse, Reason: infrav1.DriftDetectedReason}
	report(c.hosted().Generation-1, drifted)
	c.expect(infrav1.NoDriftCondition, "True NoDrift")
	report(c.hosted().Generation, waits, drifted)
	c.expect(infrav1.AppliedCondition, "False WaitingForApproval")
	c.expect(infrav1.NoDriftCondition, "False DriftDetected")
}

func driftOf(resources int) *infrav1.DriftStatus {
	drift := &infrav1.DriftStatus{}
	for i := range resources {
		drift.Resources = append(drift.Resources, infrav1.ResourceChange{Address: fmt.Sprintf("a.b[%d]", i)})
	}
	return drift
}

func TestDriftFault(t *testing.T) {
	tests := []struct {
		name  string
		drift *infrav1.DriftStatus
		next  time.Duration
		want  string
	}{
		{"never checked", nil, time.Hour, ""},
		{"no drift", driftOf(0), time.Hour, ""},
		{"drift, and a next check", driftOf(1), time.Hour, "1 resources differ from the state: a.b[0]"},
		{"drift, and no next check", driftOf(2), 0, "2 resources differ from the state: a.b[0], a.b[1]"},
		{"much drift", driftOf(8), 0, "8 resources differ from the state: a.b[0], a.b[1], a.b[2], a.b[3], a.b[4] and 3 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			err := driftFault(tt.drift, tt.next)
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.DriftDetectedReason))
			g.Expect(waiting.Message()).To(Equal(tt.want))
			g.Expect(waiting.RetryAfter).To(Equal(tt.next))
		})
	}
}

func TestDriftCheckMessage(t *testing.T) {
	report := template.Policy{DriftAction: infrav1.DriftReport}
	checked := &infrav1.DriftStatus{CheckedAt: metav1.NewTime(noon)}
	tests := []struct {
		name   string
		drift  *infrav1.DriftStatus
		policy template.Policy
		want   string
	}{
		{"checked", checked, report, "Last checked at 2026-01-02T12:00:00Z"},
		{"checked on request", checked, template.Policy{DriftAction: infrav1.DriftOff}, "Last checked at 2026-01-02T12:00:00Z"},
		{"off", nil, template.Policy{DriftAction: infrav1.DriftOff}, "Not checked: drift.action is Off"},
		{"unset", nil, template.Policy{}, "Not checked: drift.action is Off"},
		{"not yet", nil, report, "Not checked yet"},
		{"not yet, with an empty status", &infrav1.DriftStatus{}, template.Policy{DriftAction: infrav1.DriftRepair}, "Not checked yet"},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(driftCheckMessage(tt.drift, tt.policy)).To(Equal(tt.want), tt.name)
	}
}

// failChecks simulates hours in which each check of drift fails. It returns when they start.
func failChecks(g Gomega, s *execution.Scope, hours int, result terraform.Result) []time.Duration {
	var starts []time.Duration
	begin, end := s.Now, s.Now.Add(time.Duration(hours)*time.Hour)
	for {
		due, enabled := s.Situation().NextDriftCheck()
		g.Expect(enabled).To(BeTrue())
		if due.After(end) {
			return starts
		}
		s.Now = due
		starts = append(starts, due.Sub(begin).Round(time.Minute))
		recordRun(g, s, terraform.OperationCheckDrift, result)
		g.Expect(len(starts)).To(BeNumerically("<", 50), "%v", starts)
	}
}

// dueDaily returns an applied workspace whose daily check is due, with a name that has the given
// position in intervals.
func dueDaily(g Gomega, position func(float64) bool) *execution.Scope {
	for i := range 1000 {
		s := newScope(fmt.Sprintf("hello-%d", i))
		if !position(decision.Jitter(s.Apply)) {
			continue
		}
		recordRun(g, s, terraform.OperationPlanAndApply, success)
		s.Inputs.Policy.DriftAction, s.Inputs.Policy.DriftInterval = infrav1.DriftReport, 24*time.Hour
		s.Now, _ = s.Situation().NextDriftCheck()
		return s
	}
	g.Expect(false).To(BeTrue(), "no such workspace")
	return nil
}

// A few repetitions tell a lost node or a short outage from a failure that needs a user. More
// would take the slots of other runs in the middle of the outage.
func TestRecordResult_repeatsFailedDriftChecksAFewTimes(t *testing.T) {
	middle := func(j float64) bool { return j > -0.01 && j < 0.01 }
	transient := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient}
	for name, tc := range map[string]struct {
		result   terraform.Result
		position func(float64) bool
		want     []time.Duration
	}{
		"transient":         {transient, middle, []time.Duration{0, 1, 5, 21, 85}},
		"lost":              {terraform.Result{Outcome: runs.OutcomeLost}, middle, []time.Duration{0, 1, 5, 21, 85}},
		"terminal":          {terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}, middle, []time.Duration{0, 64}},
		"others start soon": {transient, func(j float64) bool { return j < -0.99 }, []time.Duration{0, 1, 3, 11, 43}},
		"others start late": {transient, func(j float64) bool { return j > 0.99 }, []time.Duration{0, 2, 8, 32, 128}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := dueDaily(g, tc.position)
			for i := range tc.want {
				tc.want[i] *= time.Minute
			}
			starts := failChecks(g, s, 20, tc.result)
			g.Expect(starts).To(HaveLen(len(tc.want)), "%v", starts)
			for i, start := range starts {
				g.Expect(start).To(BeNumerically("~", tc.want[i], time.Minute))
			}
			g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeTrue())
			g.Expect(failChecks(g, s, 27, tc.result)).To(HaveLen(1), "one each day")
		})
	}
	g := NewWithT(t)
	s := dueDaily(g, middle)
	for range history.SoonChecks {
		recordRun(g, s, terraform.OperationCheckDrift, transient)
		g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeFalse(), "it is checked again soon")
	}
}

// A user who cancels a repeated check does not want it at once again, and knows no more.
func TestRecordResult_canceledRepetitionIsMadeLater(t *testing.T) {
	g := NewWithT(t)
	s := dueDaily(g, func(float64) bool { return true })
	recordRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: runs.OutcomeLost})
	s.Now = s.Apply.Status.Drift.NextAt.Time
	run := addRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeInterrupted})
	ask(s, newCancelOperation(run.ID))
	recordAll(g, s)
	due, _ := s.Situation().NextDriftCheck()
	g.Expect(due).To(BeTemporally(">", s.Now))
	g.Expect(due).To(BeTemporally("<", s.Now.Add(time.Hour)))
	g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeFalse())
}

// GitOps may update the manager before its CRDs, which drop fields that they do not know.
func TestDriftChecks_withEarlierCRDs(t *testing.T) {
	g := NewWithT(t)
	s := dueDaily(g, func(float64) bool { return true })
	for range 3 {
		recordRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient})
		s.Apply.Status.Drift.Failures, s.Apply.Status.Drift.NextAt = 0, metav1.Time{}
		g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeTrue())
		due, _ := s.Situation().NextDriftCheck()
		g.Expect(due).To(BeTemporally(">", s.Now.Add(20*time.Hour)), "neither every 15 seconds")
		s.Now = due
	}
}

// An apply refreshes all resources: whether they differ is known, whatever checks said before.
func TestRecordResult_anApplyEndsFailedDriftChecks(t *testing.T) {
	for name, tc := range map[string]struct {
		once      *infrav1.RunOptions
		operation terraform.Operation
		result    terraform.Result
		unknown   bool
	}{
		"an apply":         {nil, terraform.OperationPlanAndApply, success, false},
		"without changes":  {nil, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges}, false},
		"an approved plan": {nil, terraform.OperationApply, success, false},
		"a failed apply":   {nil, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}, true},
		"a plan":           {nil, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan}, true},
		"a refresh":        {&refreshing, terraform.OperationPlanAndApply, success, false},
		"a replacement":    {&replacing, terraform.OperationPlanAndApply, success, false},
		"a target":         {&targeting, terraform.OperationPlanAndApply, success, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.Inputs.Policy.DriftAction, s.Inputs.Policy.DriftInterval = infrav1.DriftReport, 720*time.Hour
			s.Apply.Status.Drift = &infrav1.DriftStatus{
				CheckedAt: metav1.NewTime(s.Now.Add(-48 * time.Hour)), FailedAt: metav1.NewTime(s.Now.Add(-time.Hour)), Failure: "expired", Failures: 5,
			}
			g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeTrue())
			if tc.once != nil {
				ask(s, newRunOperation("once", *tc.once))
			}
			endRun(g, s, startRun(g, s, decision.Decision{Operation: tc.operation, OneShot: tc.once != nil}), tc.result)
			recordAll(g, s)
			g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(Equal(tc.unknown))
			g.Expect(driftFault(s.Apply.Status.Drift, 0) != nil).To(Equal(tc.unknown))
			g.Expect(s.Apply.Status.Drift.CheckedAt.IsZero()).To(BeFalse())
		})
	}
}

func TestUntilDriftCheck(t *testing.T) {
	tests := []struct {
		name    string
		action  infrav1.DriftAction
		applied time.Duration
		running bool
		want    time.Duration
	}{
		{"off", infrav1.DriftOff, time.Minute, false, 0},
		{"later", infrav1.DriftReport, time.Minute, false, 59 * time.Minute},
		{"due", infrav1.DriftReport, 2 * time.Hour, false, 0},
		{"a run triggers the next reconcile", infrav1.DriftReport, time.Minute, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Inputs.Policy.DriftAction = tt.action
			if tt.running {
				startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
			}
			s.Apply.Status.AppliedAt = metav1.NewTime(noon.Add(-tt.applied))
			spread := time.Duration(float64(s.Inputs.Policy.DriftInterval) * 0.1 * decision.Jitter(s.Apply))
			if tt.want > 0 {
				tt.want += spread
			}
			g.Expect(untilDriftCheck(s)).To(Equal(tt.want))
		})
	}
}

// Hundreds of checks may be due in the middle of an outage. The apply that ends it comes first,
// and so does a check for which a user waits.
func TestDrift_periodicChecksWaitBehindOtherRuns(t *testing.T) {
	for name, requested := range map[string]bool{"periodic": false, "requested": true} {
		t.Run(name, func(t *testing.T) {
			c := newTestController(t, append(values(), newApply(func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.Drift = &infrav1.DriftPolicy{Action: infrav1.DriftReport}
			}))...)
			var granted []queue.Key
			q := queue.New(queue.Limits{Total: 1}, time.Now, func(k queue.Key) { granted = append(granted, k) })
			c.reconciler.queue = q
			c.reconcile()
			c.finish("hello-r1", outputsResult)
			c.reconcile()
			holder, other := queue.Key{Namespace: "n", Name: "holder"}, queue.Key{Namespace: "n", Name: "other"}
			q.Acquire(holder, queue.Group{})
			if requested {
				c.request(newOperation("check", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift}))
			}
			c.reconciler.Now = func() time.Time { return noon.Add(2 * time.Hour) }
			c.reconcile()
			_, waiting := q.Len()
			c.Expect(waiting).To(Equal(1))
			q.Acquire(other, queue.Group{})
			q.Release(holder)
			if requested {
				c.Expect(granted).To(Equal([]queue.Key{{Namespace: "n", Name: "hello"}}))
			} else {
				c.Expect(granted).To(Equal([]queue.Key{other}))
			}
		})
	}
}

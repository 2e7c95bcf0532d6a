package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestClassifyFailure(t *testing.T) {
	const apply, destroy = terraform.OperationPlanAndApply, terraform.OperationDestroy
	terminal := terraform.Result{Operation: apply, Class: terraform.ClassTerminal}
	with := func(change func(*terraform.Result)) terraform.Result {
		result := terminal
		change(&result)
		return result
	}
	tests := []struct {
		name    string
		result  terraform.Result
		outcome terraform.Outcome
		reason  string
		retry   retryMode
	}{
		{"canceled", terminal, outcomeCanceled, infrav1.RunCanceledReason, retryNever},
		{"canceled with a stale plan", with(func(r *terraform.Result) { r.StalePlan = true }), outcomeCanceled, infrav1.RunCanceledReason, retryNever},
		{"interrupted", terminal, terraform.OutcomeInterrupted, infrav1.RunInterruptedReason, retryNow},
		{"lost", terminal, outcomeLost, infrav1.RunInterruptedReason, retryNow},
		{"stale plan", with(func(r *terraform.Result) { r.StalePlan = true }), terraform.OutcomeFailed, infrav1.PlanStaleReason, retryNow},
		{"interrupted with a stale plan", with(func(r *terraform.Result) { r.StalePlan = true }), terraform.OutcomeInterrupted, infrav1.PlanStaleReason, retryNow},
		{"blocked", terminal, terraform.OutcomeBlocked, infrav1.ProtectedResourceReason, retryLater},
		{"timed out", terminal, terraform.OutcomeTimedOut, infrav1.RunTimedOutReason, retryLater},
		{"state too large", with(func(r *terraform.Result) { r.StateTooLarge = true }), terraform.OutcomeFailed, infrav1.StateTooLargeReason, retryNever},
		{"state too large in a deletion", with(func(r *terraform.Result) { r.StateTooLarge, r.Operation = true, terraform.OperationDestroy }), terraform.OutcomeFailed, infrav1.StateTooLargeReason, retryLater},
		{"state missing", with(func(r *terraform.Result) { r.StateProblem = terraform.StateMissing }), terraform.OutcomeFailed, infrav1.StateMissingReason, retryNever},
		{"state missing while destroying", with(func(r *terraform.Result) { r.StateProblem, r.Operation = terraform.StateMissing, destroy }), terraform.OutcomeFailed, infrav1.StateMissingReason, retryLater},
		{"snapshot missing", with(func(r *terraform.Result) { r.SnapshotMissing = true }), terraform.OutcomeFailed, infrav1.SnapshotNotFoundReason, retryNever},
		{"invalid inputs", with(func(r *terraform.Result) { r.InvalidInputs = "Missing" }), terraform.OutcomeFailed, infrav1.MissingVariableReason, retryNever},
		{"lock held", with(func(r *terraform.Result) { r.Class = terraform.ClassLockHeld }), terraform.OutcomeFailed, infrav1.LockHeldReason, retryLater},
		{"terminal", terminal, terraform.OutcomeFailed, infrav1.RunFailedReason, retryNever},
		{"terminal while destroying", with(func(r *terraform.Result) { r.Operation = destroy }), terraform.OutcomeFailed, infrav1.RunFailedReason, retryLater},
		{"transient", with(func(r *terraform.Result) { r.Class = terraform.ClassTransient }), terraform.OutcomeFailed, infrav1.RetryingReason, retryLater},
		{"unclassified", terraform.Result{}, terraform.OutcomeFailed, infrav1.RetryingReason, retryLater},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			reason, retry := classifyFailure(&tt.result, tt.outcome)
			g.Expect(reason).To(Equal(tt.reason))
			g.Expect(retry).To(Equal(tt.retry))
		})
	}
}

func TestClassifyFailure_namesOutputsThatAreTooLarge(t *testing.T) {
	g := NewWithT(t)
	reason, retry := classifyFailure(&terraform.Result{Operation: terraform.OperationPlanAndApply, Class: terraform.ClassTerminal, OutputsTooLarge: true}, terraform.OutcomeFailed)
	g.Expect(reason).To(Equal(infrav1.OutputsTooLargeReason))
	g.Expect(retry).To(Equal(retryNever))
}

func TestRecordFailure_retriesInterruptionsWithBackoffAfterThreeAttempts(t *testing.T) {
	tests := []struct {
		previous *infrav1.FailureStatus
		attempts int32
		delayed  bool
	}{
		{nil, 1, false},
		{&infrav1.FailureStatus{Inputs: inputs, Attempts: 1}, 2, false},
		{&infrav1.FailureStatus{Inputs: inputs, Attempts: 2}, 3, false},
		{&infrav1.FailureStatus{Inputs: inputs, Attempts: 3}, 4, true},
		{&infrav1.FailureStatus{Inputs: "others", Attempts: 3}, 1, false},
	}
	for _, tt := range tests {
		g := NewWithT(t)
		s := newScope("hello")
		s.apply.Status.Failure = tt.previous
		s.addRun(g, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeInterrupted})
		s.recordAll(g)

		f := s.apply.Status.Failure
		g.Expect(f.Attempts).To(Equal(tt.attempts))
		want := s.now
		if tt.delayed {
			want = want.Add(backoff(s.policy, tt.attempts))
		}
		g.Expect(f.NextAt.Time).To(Equal(want), "after %d attempts", tt.attempts)
	}
}

func TestMayHaveChanged(t *testing.T) {
	phases := func(names ...terraform.Phase) []terraform.PhaseTime {
		var times []terraform.PhaseTime
		for _, name := range names {
			times = append(times, terraform.PhaseTime{Name: name})
		}
		return times
	}
	tests := []struct {
		name   string
		result terraform.Result
		want   bool
	}{
		{"lost while applying", terraform.Result{Outcome: outcomeLost, Operation: terraform.OperationPlanAndApply}, true},
		{"lost while planning", terraform.Result{Outcome: outcomeLost, Operation: terraform.OperationPlan}, false},
		{"restored", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState}, true},
		{"snapshot missing", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState, SnapshotMissing: true}, false},
		{"no phase", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationPlanAndApply}, false},
		{"planned", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning)}, false},
		{"applied", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning, terraform.PhaseApplying)}, true},
		{"destroyed", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhaseDestroying)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(mayHaveChanged(&tt.result)).To(Equal(tt.want))
		})
	}
}

func TestIsRecorded(t *testing.T) {
	history := []infrav1.RunRecord{{ID: "hello-r7"}, {ID: "hello-r5"}}
	tests := []struct {
		name    string
		history []infrav1.RunRecord
		number  int64
		want    bool
	}{
		{"no history", nil, 1, false},
		{"newer", history, 8, false},
		{"recorded", history, 7, true},
		{"the oldest", history, 5, true},
		{"between", history, 6, false},
		{"older", history, 4, true},
		{"older than a run without a number", []infrav1.RunRecord{{ID: "odd"}}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &runRecord{id: record.NewRunID("hello", tt.number), number: tt.number}
			NewWithT(t).Expect(isRecorded(tt.history, run)).To(Equal(tt.want))
		})
	}
}

func TestOutcomeOf(t *testing.T) {
	tests := []struct {
		outcome  terraform.Outcome
		canceled bool
		want     terraform.Outcome
	}{
		{terraform.OutcomeInterrupted, true, outcomeCanceled},
		{terraform.OutcomeInterrupted, false, terraform.OutcomeInterrupted},
		{outcomeLost, true, outcomeCanceled},
		{outcomeLost, false, outcomeLost},
		{terraform.OutcomeSucceeded, true, terraform.OutcomeSucceeded},
		{terraform.OutcomeFailed, true, terraform.OutcomeFailed},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(outcomeOf(&terraform.Result{Outcome: tt.outcome}, tt.canceled)).To(Equal(tt.want))
	}
}

func TestSameBlock(t *testing.T) {
	plan := func(inputs string, blocked ...string) *infrav1.PlanStatus {
		return &infrav1.PlanStatus{Inputs: inputs, Blocked: blocked}
	}
	tests := []struct {
		name              string
		previous, current *infrav1.PlanStatus
		want              bool
	}{
		{"same", plan("i", "a.b"), plan("i", "a.b"), true},
		{"no previous plan", nil, plan("i", "a.b"), false},
		{"no plan", plan("i", "a.b"), nil, false},
		{"other inputs", plan("i", "a.b"), plan("j", "a.b"), false},
		{"other resources", plan("i", "a.b"), plan("i", "c.d"), false},
		{"no resources", plan("i"), plan("i"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(sameBlock(tt.previous, tt.current)).To(Equal(tt.want))
		})
	}
}

func TestLimits_haveDefaults(t *testing.T) {
	g := NewWithT(t)
	apply := newScope("hello").apply
	g.Expect(historyLimit(apply)).To(Equal(10))
	g.Expect(snapshotLimit(apply)).To(Equal(5))
	apply.Spec.HistoryLimit, apply.Spec.SnapshotLimit = new(int32(3)), new(int32(0))
	g.Expect(historyLimit(apply)).To(Equal(3))
	g.Expect(snapshotLimit(apply)).To(Equal(0))
}

func TestRecordSuccess_setsTheStateOfALineage(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.addRun(g, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
	s.recordAll(g)
	g.Expect(s.apply.Status.State).To(BeNil(), "the run had no state")
	g.Expect(s.apply.Status.Drift).To(BeNil())

	s.addRun(g, terraform.OperationPlanAndApply, success)
	s.recordAll(g)
	g.Expect(s.apply.Status.State).To(Equal(&infrav1.StateStatus{
		Backend: "kubernetes", SecretName: "tfstate-default-hello-ws", Lineage: "l", Serial: 1, Resources: 1, Confirmation: infrav1.StateConfirmed,
	}))
	g.Expect(s.apply.Status.AppliedAt).To(Equal(metav1.NewTime(s.now)))
}

package history

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
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
		{"canceled", terminal, runs.OutcomeCanceled, infrav1.RunCanceledReason, retryNever},
		{"canceled with a stale plan", with(func(r *terraform.Result) { r.StalePlan = true }), runs.OutcomeCanceled, infrav1.RunCanceledReason, retryNever},
		{"interrupted", terminal, terraform.OutcomeInterrupted, infrav1.RunInterruptedReason, retryNow},
		{"lost", terminal, runs.OutcomeLost, infrav1.RunInterruptedReason, retryNow},
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
		NewWithT(t).Expect(sameBlock(tt.previous, tt.current)).To(Equal(tt.want), tt.name)
	}
}

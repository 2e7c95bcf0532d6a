package decision

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// command is a state command that was not executed.
func command(s *Situation) {
	s.Command = &terraform.StateCommand{ID: "2", Command: terraform.StatePush}
}

// A deletion that cannot destroy because of its state has the same ways out as a run.
func TestDecideDestroy_repairsTheStateFirst(t *testing.T) {
	stuck := func(s *Situation) {
		failed(infrav1.StateMissingReason, 9, time.Minute)(s)
		s.Failure.Inputs = runs.DestroyInputs
	}
	restore := func(s *Situation) { s.Restore = "x" }
	for _, e := range []expectation{
		{name: "restore", situation: upToDate(stuck, restore), want: terraform.OperationRestoreState},
		{
			name: "a restore that failed", situation: upToDate(restore, failedForGood, func(s *Situation) { s.Failure.Inputs = runs.RestoreInputs("x") }),
			reason: infrav1.RunFailedReason, stalled: true, contains: []string{"To destroy without restoring the snapshot, delete the WorkspaceOperation"},
		},
		{name: "push", situation: upToDate(stuck, command), want: terraform.OperationStateCommand},
		{name: "restore before push", situation: upToDate(stuck, command, restore), want: terraform.OperationRestoreState},
		{name: "move", situation: upToDate(stuck, command, func(s *Situation) { s.ConfiguredBackend, s.Move = "s3", &terraform.Move{ID: "1"} }), want: terraform.OperationMoveState},
	} {
		t.Run(e.name, func(t *testing.T) { e.verify(t, NextDestroy) })
	}
}

func TestDecideDestroy(t *testing.T) {
	failedDestroy := func(next time.Duration) func(*Situation) {
		return func(s *Situation) {
			failed(infrav1.RetryingReason, 1, next)(s)
			s.Failure.Inputs = runs.DestroyInputs
		}
	}
	tests := []struct {
		name      string
		situation Situation
		reason    string
	}{
		{"applied", upToDate(), ""},
		{"changed", upToDate(changed), ""},
		{"a plan waits", upToDate(changed, manual, waitingPlan), ""},
		{"an apply failed", upToDate(changed, failedForGood), ""},
		{"the destroy run failed", upToDate(failedDestroy(time.Minute)), infrav1.RetryingReason},
		{"the destroy run is retried", upToDate(failedDestroy(0)), ""},
		{"the destroy run failed, and a run is requested", upToDate(failedDestroy(time.Minute), requested), ""},
		{"the backend changed", upToDate(func(s *Situation) { s.ConfiguredBackend = "s3" }), infrav1.BackendChangedReason},
		{"the backend changed, and a run is requested", upToDate(requested, func(s *Situation) { s.ConfiguredBackend = "s3" }), infrav1.BackendChangedReason},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			next, err := NextDestroy(tt.situation)
			if tt.reason != "" {
				g.Expect(err).To(MatchError(HavePrefix(tt.reason + ": ")))
				g.Expect(next).To(Equal(NoRun))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next).To(Equal(Decision{Operation: terraform.OperationDestroy}))
		})
	}
}

func TestDecideDestroy_manual(t *testing.T) {
	manualDestroy := func(s *Situation) { s.Policy.DestroyApproval = infrav1.ApprovalManual }
	planned := func(s *Situation) {
		s.Plan = &infrav1.PlanStatus{ID: "plan-d", Inputs: runs.DestroyInputs, Waiting: new(true), Destroy: 12}
	}
	approved := func(s *Situation) { s.ApprovedPlan = "plan-d" }
	protected := func(s *Situation) {
		s.Protect, s.Plan.Blocked = []string{"aws_vpc"}, []string{"aws_vpc.this"}
	}
	failedDestroy := func(s *Situation) {
		failed(infrav1.RetryingReason, 1, time.Minute)(s)
		s.Failure.Inputs = runs.DestroyInputs
	}
	for _, e := range []expectation{
		{name: "no plan", situation: upToDate(manualDestroy), want: terraform.OperationPlanDestroy},
		{name: "a plan for the inputs", situation: upToDate(manualDestroy, changed, waitingPlan, func(s *Situation) { s.ApprovedPlan = s.Plan.ID }), want: terraform.OperationPlanDestroy},
		{
			name: "a plan waits", situation: upToDate(manualDestroy, planned), reason: infrav1.WaitingForApprovalReason,
			contains: []string{"plan-d would destroy 12 resources", "captctl approve", "retainWorkspaceOnDelete: true"},
		},
		{name: "another plan is approved", situation: upToDate(manualDestroy, planned, func(s *Situation) { s.ApprovedPlan = "plan-c" }), reason: infrav1.WaitingForApprovalReason},
		{name: "approved", situation: upToDate(manualDestroy, planned, approved), want: terraform.OperationApplyDestroy, plan: "plan-d"},
		{name: "rejected", situation: upToDate(manualDestroy, planned, approved, func(s *Situation) { s.RejectedPlan = "plan-d" }), reason: infrav1.PlanRejectedReason, stalled: true, contains: []string{"captctl reconcile"}},
		{name: "rejected, and a run is requested", situation: upToDate(manualDestroy, planned, requested, func(s *Situation) { s.RejectedPlan = "plan-d" }), want: terraform.OperationPlanDestroy},
		{
			name: "protected", situation: upToDate(manualDestroy, planned, approved, protected),
			reason: infrav1.ProtectedResourceReason, stalled: true, contains: []string{"aws_vpc.this", "--allow-destroy"},
		},
		{name: "protected and released", situation: upToDate(manualDestroy, planned, approved, protected, func(s *Situation) { s.Unprotected = []string{"aws_vpc.this"} }), want: terraform.OperationApplyDestroy, plan: "plan-d"},
		{name: "the run failed", situation: upToDate(manualDestroy, planned, approved, failedDestroy), reason: infrav1.RetryingReason, after: time.Minute},
		{name: "the state is repaired first", situation: upToDate(manualDestroy, planned, approved, command), want: terraform.OperationStateCommand},
	} {
		t.Run(e.name, func(t *testing.T) { e.verify(t, NextDestroy) })
	}
}

package workspacetemplateapply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// command is a state command that was not executed.
func command(s *decision.Situation) {
	s.Command = &terraform.StateCommand{ID: "2", Command: terraform.StatePush}
}

// A deletion that cannot destroy because of its state has the same ways out as a run.
func TestDecideDestroy_repairsTheStateFirst(t *testing.T) {
	stuck := func(s *decision.Situation) {
		failed(infrav1.StateMissingReason, 9, time.Minute)(s)
		s.Failure.Inputs = runs.DestroyInputs
	}
	restore := func(s *decision.Situation) { s.Restore = "x" }
	for _, e := range []expectation{
		{name: "restore", situation: upToDate(stuck, restore), want: terraform.OperationRestoreState},
		{name: "restored", situation: upToDate(restore, func(s *decision.Situation) { s.Restored = "x" }), want: terraform.OperationDestroy},
		{
			name: "a restore that failed", situation: upToDate(restore, failedForGood, func(s *decision.Situation) { s.Failure.Inputs = runs.RestoreInputs("x") }),
			reason: infrav1.RunFailedReason, stalled: true, contains: []string{infrav1.RestoreSnapshotAnnotation},
		},
		{name: "push", situation: upToDate(stuck, command), want: terraform.OperationStateCommand},
		{name: "restore before push", situation: upToDate(stuck, command, restore), want: terraform.OperationRestoreState},
		{name: "move", situation: upToDate(stuck, command, func(s *decision.Situation) { s.ConfiguredBackend, s.Move = "s3", &terraform.Move{ID: "1"} }), want: terraform.OperationMoveState},
	} {
		t.Run(e.name, func(t *testing.T) { e.verify(t, decision.NextDestroy) })
	}
}

func TestDecideDestroy(t *testing.T) {
	failedDestroy := func(next time.Duration) func(*decision.Situation) {
		return func(s *decision.Situation) {
			failed(infrav1.RetryingReason, 1, next)(s)
			s.Failure.Inputs = runs.DestroyInputs
		}
	}
	tests := []struct {
		name      string
		situation decision.Situation
		reason    string
	}{
		{"applied", upToDate(), ""},
		{"changed", upToDate(changed), ""},
		{"a plan waits", upToDate(changed, manual, waitingPlan), ""},
		{"an apply failed", upToDate(changed, failedForGood), ""},
		{"the destroy run failed", upToDate(failedDestroy(time.Minute)), infrav1.RetryingReason},
		{"the destroy run is retried", upToDate(failedDestroy(0)), ""},
		{"the destroy run failed, and a run is requested", upToDate(failedDestroy(time.Minute), requested), ""},
		{"the backend changed", upToDate(func(s *decision.Situation) { s.ConfiguredBackend = "s3" }), infrav1.BackendChangedReason},
		{"the backend changed, and a run is requested", upToDate(requested, func(s *decision.Situation) { s.ConfiguredBackend = "s3" }), infrav1.BackendChangedReason},
		{"a handled state command", upToDate(command, func(s *decision.Situation) { s.HandledCommand = s.Command.ID }), ""},
		{"an invalid state command", upToDate(func(s *decision.Situation) { s.InvalidCommand = "It is invalid" }), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			next, err := decision.NextDestroy(tt.situation)
			if tt.reason != "" {
				g.Expect(err).To(MatchError(HavePrefix(tt.reason + ": ")))
				g.Expect(next).To(Equal(decision.NoRun))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next).To(Equal(decision.Decision{Operation: terraform.OperationDestroy}))
		})
	}
}

func TestDecideDestroy_manual(t *testing.T) {
	manualDestroy := func(s *decision.Situation) { s.Policy.DestroyApproval = infrav1.ApprovalManual }
	planned := func(s *decision.Situation) {
		s.Plan = &infrav1.PlanStatus{ID: "plan-d", Inputs: runs.DestroyInputs, Waiting: new(true), Destroy: 12}
	}
	approved := func(s *decision.Situation) { s.ApprovedPlan = "plan-d" }
	protected := func(s *decision.Situation) {
		s.Protect, s.Plan.Blocked = []string{"aws_vpc"}, []string{"aws_vpc.this"}
	}
	failedDestroy := func(s *decision.Situation) {
		failed(infrav1.RetryingReason, 1, time.Minute)(s)
		s.Failure.Inputs = runs.DestroyInputs
	}
	for _, e := range []expectation{
		{name: "no plan", situation: upToDate(manualDestroy), want: terraform.OperationPlanDestroy},
		{name: "a plan for the inputs", situation: upToDate(manualDestroy, changed, waitingPlan, func(s *decision.Situation) { s.ApprovedPlan = s.Plan.ID }), want: terraform.OperationPlanDestroy},
		{
			name: "a plan waits", situation: upToDate(manualDestroy, planned), reason: infrav1.WaitingForApprovalReason,
			contains: []string{"plan-d would destroy 12 resources", "captctl approve", "retainWorkspaceOnDelete: true"},
		},
		{name: "another plan is approved", situation: upToDate(manualDestroy, planned, func(s *decision.Situation) { s.ApprovedPlan = "plan-c" }), reason: infrav1.WaitingForApprovalReason},
		{name: "approved", situation: upToDate(manualDestroy, planned, approved), want: terraform.OperationApplyDestroy, plan: "plan-d"},
		{name: "rejected", situation: upToDate(manualDestroy, planned, approved, func(s *decision.Situation) { s.RejectedPlan = "plan-d" }), reason: infrav1.PlanRejectedReason, stalled: true, contains: []string{"captctl retry"}},
		{name: "rejected, and a run is requested", situation: upToDate(manualDestroy, planned, requested, func(s *decision.Situation) { s.RejectedPlan = "plan-d" }), want: terraform.OperationPlanDestroy},
		{
			name: "protected", situation: upToDate(manualDestroy, planned, approved, protected),
			reason: infrav1.ProtectedResourceReason, stalled: true, contains: []string{"aws_vpc.this", "--allow-destroy"},
		},
		{name: "protected and released", situation: upToDate(manualDestroy, planned, approved, protected, func(s *decision.Situation) { s.Unprotected = []string{"aws_vpc.this"} }), want: terraform.OperationApplyDestroy, plan: "plan-d"},
		{name: "the run failed", situation: upToDate(manualDestroy, planned, approved, failedDestroy), reason: infrav1.RetryingReason, after: time.Minute},
		{name: "the state is repaired first", situation: upToDate(manualDestroy, planned, approved, command), want: terraform.OperationStateCommand},
	} {
		t.Run(e.name, func(t *testing.T) { e.verify(t, decision.NextDestroy) })
	}
}

func TestObsoleteInDeletion_withoutApproval(t *testing.T) {
	run := func(operation terraform.Operation, state string) *runs.Run {
		secret := &corev1.Secret{}
		secret.Annotations = map[string]string{record.OperationAnnotation: string(operation), record.StateAnnotation: state}
		return &runs.Run{Secret: secret}
	}
	used, empty := `{"backend":"kubernetes","resources":2,"confirmation":"Confirmed"}`, `{"backend":"s3","confirmation":"Confirmed"}`
	s := execution.NewScope(&runs.Workspace{Apply: &infrav1.WorkspaceTemplateApply{}})
	s.Policy.DestroyApproval = infrav1.ApprovalManual
	g := NewWithT(t)
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, used))).NotTo(BeEmpty())
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, empty))).To(BeEmpty())
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationPlanDestroy, used))).To(BeEmpty())
	s.Policies = &terraform.Policies{Policies: []terraform.Policy{{Name: "new"}}}
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationPlanDestroy, used))).To(Equal("The policies have changed"))
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationDestroy, empty))).To(BeEmpty(), "no policy decides about an empty state")
	s.Policies = nil
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).NotTo(BeEmpty())
	s.Apply.Status.Plan = &infrav1.PlanStatus{ID: "plan-d", Inputs: runs.DestroyInputs, Waiting: new(true)}
	s.Apply.Spec.ApprovedPlan = "plan-d"
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).To(BeEmpty())
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	g.Expect(s.ObsoleteInDeletion(run(terraform.OperationApplyDestroy, used))).NotTo(BeEmpty())
}

func TestIsDestroyed(t *testing.T) {
	tests := []struct {
		name   string
		result *terraform.Result
		want   bool
	}{
		{"not ended", nil, false},
		{"destroyed", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeSucceeded}, true},
		{"nothing to destroy", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeNoChanges}, true},
		{"destroyed without excluded resources", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Resources: 1}}, false},
		{"failed to destroy", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: terraform.OutcomeFailed}, false},
		{"lost", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: runs.OutcomeLost}, false},
		{"applied", &terraform.Result{Operation: terraform.OperationPlanAndApply, Outcome: terraform.OutcomeSucceeded}, false},
		{"no changes", &terraform.Result{Operation: terraform.OperationPlan, Outcome: terraform.OutcomeNoChanges}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(runs.IsDestroyed(tt.result)).To(Equal(tt.want))
		})
	}
}

func TestIsHeld(t *testing.T) {
	g := NewWithT(t)
	holder := func(identity *string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: identity}}
	}
	g.Expect(runs.IsHeld(holder(nil))).To(BeFalse())
	g.Expect(runs.IsHeld(holder(new("")))).To(BeFalse())
	g.Expect(runs.IsHeld(holder(new("hello-r1")))).To(BeTrue())
}

func TestLastRunUnsettled(t *testing.T) {
	result := func(operation terraform.Operation, outcome terraform.Outcome) *terraform.Result {
		return &terraform.Result{Operation: operation, Outcome: outcome}
	}
	const apply, plan = terraform.OperationPlanAndApply, terraform.OperationPlan
	lost, lostPlan := result(apply, runs.OutcomeLost), result(plan, runs.OutcomeLost)
	failed, interrupted := result(apply, terraform.OutcomeFailed), result(apply, terraform.OutcomeInterrupted)
	tests := []struct {
		name string
		// results are the newest first.
		results []*terraform.Result
		want    bool
	}{
		{"no run", nil, false},
		{"not ended", []*terraform.Result{nil}, true},
		{"applied", []*terraform.Result{result(apply, terraform.OutcomeSucceeded)}, false},
		{"lost", []*terraform.Result{lost}, true},
		{"lost while planning", []*terraform.Result{lostPlan}, false},
		{"lost while planning after a lost apply", []*terraform.Result{lostPlan, lost}, true},
		{"failed after a lost apply", []*terraform.Result{failed, interrupted, lost}, true},
		{"applied after a lost apply", []*terraform.Result{result(apply, terraform.OutcomeSucceeded), lost}, false},
		{"no changes after a lost apply", []*terraform.Result{result(apply, terraform.OutcomeNoChanges), lost}, false},
		{"planned after a lost apply", []*terraform.Result{result(plan, terraform.OutcomePlanned), lost}, false},
		{"blocked after a lost apply", []*terraform.Result{result(apply, terraform.OutcomeBlocked), lost}, false},
		{"lost after an apply", []*terraform.Result{lost, result(apply, terraform.OutcomeSucceeded)}, true},
		{"only failures", []*terraform.Result{failed, interrupted}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(runs.LastRunUnsettled(tt.results)).To(Equal(tt.want))
		})
	}
}

func TestComponents(t *testing.T) {
	g := NewWithT(t)

	deleted, released := cleanup.Components(false)
	g.Expect(deleted).To(ConsistOf("run", "plan", "transfer", "snapshot", "connection", "state"))
	g.Expect(released).To(ConsistOf("rescue"), "it may be the only record of resources")

	deleted, released = cleanup.Components(true)
	g.Expect(deleted).To(ConsistOf("run", "plan", "transfer"))
	g.Expect(released).To(ConsistOf("snapshot", "connection", "state", "rescue"), "a rescued state may be the only copy")
}

func TestDestroyedMessage(t *testing.T) {
	tests := []struct {
		name       string
		retain     bool
		state      *infrav1.StateStatus
		connection string
		want       string
	}{
		{"destroyed", false, &infrav1.StateStatus{SecretName: "s"}, "c", ""},
		{"retained without a state", true, nil, "", "Resources are retained"},
		{"retained with an empty state", true, &infrav1.StateStatus{}, "", "Resources are retained"},
		{"state in a Secret", true, &infrav1.StateStatus{SecretName: "s", Backend: "kubernetes"}, "", "Resources are retained, state in Secret s"},
		{"state in another backend", true, &infrav1.StateStatus{Backend: "s3"}, "c", "Resources are retained, state in backend s3, outputs in Secret c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScope("hello")
			s.Apply.Spec.RetainWorkspaceOnDelete = tt.retain
			s.Apply.Status.State, s.Apply.Status.ConnectionSecretName = tt.state, tt.connection
			NewWithT(t).Expect(destroyedMessage(s)).To(Equal(tt.want))
		})
	}
}

func TestDestroyedMessage_namesARunThatMayHoldTheLock(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost})
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("state in backend s3, run hello-r1 may have left the state locked"))
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "kubernetes", SecretName: "s"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("state in Secret s"), "a SaveState run has released it")

	s = newScope("hello")
	s.Apply.Spec.RetainWorkspaceOnDelete = true
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, LockLeft: true})
	s.Apply.Status.State = &infrav1.StateStatus{Backend: "s3"}
	g.Expect(destroyedMessage(s)).To(HaveSuffix("run hello-r1 may have left the state locked"), "its tool was killed")
}

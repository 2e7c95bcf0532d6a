package runs

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

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
		{"lost", &terraform.Result{Operation: terraform.OperationDestroy, Outcome: OutcomeLost}, false},
		{"applied", &terraform.Result{Operation: terraform.OperationPlanAndApply, Outcome: terraform.OutcomeSucceeded}, false},
		{"no changes", &terraform.Result{Operation: terraform.OperationPlan, Outcome: terraform.OutcomeNoChanges}, false},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(IsDestroyed(tt.result)).To(Equal(tt.want), tt.name)
	}
}

func TestIsHeld(t *testing.T) {
	g := NewWithT(t)
	holder := func(identity *string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: identity}}
	}
	g.Expect(isHeld(holder(nil))).To(BeFalse())
	g.Expect(isHeld(holder(new("")))).To(BeFalse())
	g.Expect(isHeld(holder(new("hello-r1")))).To(BeTrue())
}

func TestLastRunUnsettled(t *testing.T) {
	result := func(operation terraform.Operation, outcome terraform.Outcome) *terraform.Result {
		return &terraform.Result{Operation: operation, Outcome: outcome}
	}
	const apply, plan = terraform.OperationPlanAndApply, terraform.OperationPlan
	lost, lostPlan := result(apply, OutcomeLost), result(plan, OutcomeLost)
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
		NewWithT(t).Expect(lastRunUnsettled(tt.results)).To(Equal(tt.want), tt.name)
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
		{"lost while applying", terraform.Result{Outcome: OutcomeLost, Operation: terraform.OperationPlanAndApply}, true},
		{"lost while planning", terraform.Result{Outcome: OutcomeLost, Operation: terraform.OperationPlan}, false},
		{"restored", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState}, true},
		{"snapshot missing", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState, SnapshotMissing: true}, false},
		{"no phase", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationPlanAndApply}, false},
		{"planned", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning)}, false},
		{"applied", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning, terraform.PhaseApplying)}, true},
		{"destroyed", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhaseDestroying)}, true},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(MayHaveChanged(&tt.result)).To(Equal(tt.want), tt.name)
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
			run := &Run{ID: record.NewRunID("hello", tt.number), Number: tt.number}
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
		{terraform.OutcomeInterrupted, true, OutcomeCanceled},
		{terraform.OutcomeInterrupted, false, terraform.OutcomeInterrupted},
		{OutcomeLost, true, OutcomeCanceled},
		{OutcomeLost, false, OutcomeLost},
		{terraform.OutcomeSucceeded, true, terraform.OutcomeSucceeded},
		{terraform.OutcomeFailed, true, terraform.OutcomeFailed},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(outcomeOf(&terraform.Result{Outcome: tt.outcome}, tt.canceled)).To(Equal(tt.want))
	}
}

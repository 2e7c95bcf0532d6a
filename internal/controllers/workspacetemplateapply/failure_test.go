package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

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
		s.Apply.Status.Failure = tt.previous
		addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeInterrupted})
		recordAll(g, s)

		f := s.Apply.Status.Failure
		g.Expect(f.Attempts).To(Equal(tt.attempts))
		want := s.Now
		if tt.delayed {
			want = want.Add(decision.Backoff(s.Policy, tt.attempts))
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
		{"lost while applying", terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlanAndApply}, true},
		{"lost while planning", terraform.Result{Outcome: runs.OutcomeLost, Operation: terraform.OperationPlan}, false},
		{"restored", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState}, true},
		{"snapshot missing", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationRestoreState, SnapshotMissing: true}, false},
		{"no phase", terraform.Result{Outcome: terraform.OutcomeFailed, Operation: terraform.OperationPlanAndApply}, false},
		{"planned", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning)}, false},
		{"applied", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhasePlanning, terraform.PhaseApplying)}, true},
		{"destroyed", terraform.Result{Outcome: terraform.OutcomeFailed, Phases: phases(terraform.PhaseDestroying)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(runs.MayHaveChanged(&tt.result)).To(Equal(tt.want))
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
			run := &runs.Run{ID: record.NewRunID("hello", tt.number), Number: tt.number}
			NewWithT(t).Expect(runs.IsRecorded(tt.history, run)).To(Equal(tt.want))
		})
	}
}

func TestOutcomeOf(t *testing.T) {
	tests := []struct {
		outcome  terraform.Outcome
		canceled bool
		want     terraform.Outcome
	}{
		{terraform.OutcomeInterrupted, true, runs.OutcomeCanceled},
		{terraform.OutcomeInterrupted, false, terraform.OutcomeInterrupted},
		{runs.OutcomeLost, true, runs.OutcomeCanceled},
		{runs.OutcomeLost, false, runs.OutcomeLost},
		{terraform.OutcomeSucceeded, true, terraform.OutcomeSucceeded},
		{terraform.OutcomeFailed, true, terraform.OutcomeFailed},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(runs.OutcomeOf(&terraform.Result{Outcome: tt.outcome}, tt.canceled)).To(Equal(tt.want))
	}
}

func TestLimits_haveDefaults(t *testing.T) {
	g := NewWithT(t)
	apply := newScope("hello").Apply
	g.Expect(runs.HistoryLimit(apply)).To(Equal(10))
	g.Expect(cleanup.SnapshotLimit(apply)).To(Equal(5))
	apply.Spec.HistoryLimit, apply.Spec.SnapshotLimit = new(int32(3)), new(int32(0))
	g.Expect(runs.HistoryLimit(apply)).To(Equal(3))
	g.Expect(cleanup.SnapshotLimit(apply)).To(Equal(0))
}

func TestRecordSuccess_setsTheStateOfALineage(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
	recordAll(g, s)
	g.Expect(s.Apply.Status.State).To(BeNil(), "the run had no state")
	g.Expect(s.Apply.Status.Drift).To(BeNil())

	addRun(g, s, terraform.OperationPlanAndApply, success)
	recordAll(g, s)
	g.Expect(s.Apply.Status.State).To(Equal(&infrav1.StateStatus{
		Backend: "kubernetes", SecretName: "tfstate-default-hello-ws", Lineage: "l", Serial: 1, Resources: 1, Confirmation: infrav1.StateConfirmed,
	}))
	g.Expect(s.Apply.Status.AppliedAt).To(Equal(metav1.NewTime(s.Now)))
}

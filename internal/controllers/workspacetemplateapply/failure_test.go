package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
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
		recordRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeInterrupted})

		f := s.Apply.Status.Failure
		g.Expect(f.Attempts).To(Equal(tt.attempts))
		want := s.Now
		if tt.delayed {
			want = want.Add(decision.Backoff(s.Policy, tt.attempts))
		}
		g.Expect(f.NextAt.Time).To(Equal(want), "after %d attempts", tt.attempts)
	}
}

func TestLimits_haveDefaults(t *testing.T) {
	g := NewWithT(t)
	apply := newScope("hello").Apply
	g.Expect(runs.HistoryLimit(apply)).To(Equal(10))
	apply.Spec.HistoryLimit = new(int32(3))
	g.Expect(runs.HistoryLimit(apply)).To(Equal(3))
}

func TestRecordSuccess_setsTheStateOfALineage(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	recordRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
	g.Expect(s.Apply.Status.State).To(BeNil(), "the run had no state")
	g.Expect(s.Apply.Status.Drift).To(BeNil())

	recordRun(g, s, terraform.OperationPlanAndApply, success)
	g.Expect(s.Apply.Status.State).To(Equal(&infrav1.StateStatus{
		Backend: "kubernetes", SecretName: "tfstate-default-hello-ws", Lineage: "l", Serial: 1, Resources: 1, Confirmation: infrav1.StateConfirmed,
	}))
	g.Expect(s.Apply.Status.AppliedAt).To(Equal(metav1.NewTime(s.Now)))
}

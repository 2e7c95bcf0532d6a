package workspacetemplateapply

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

func output(value string) terraform.Output { return terraform.Output{Value: json.RawMessage(value)} }

func TestLatestOutputs(t *testing.T) {
	type ran struct {
		operation terraform.Operation
		outcome   terraform.Outcome
	}
	tests := []struct {
		name string
		runs []ran
		want string
	}{
		{"none", nil, ""},
		{"an apply", []ran{{terraform.OperationPlanAndApply, terraform.OutcomeSucceeded}}, "hello-r1"},
		{"a plan without changes", []ran{{terraform.OperationPlan, terraform.OutcomeNoChanges}}, "hello-r1"},
		{"a plan with changes", []ran{{terraform.OperationPlan, terraform.OutcomePlanned}}, ""},
		{"an apply before drift checks", []ran{{terraform.OperationApply, terraform.OutcomeSucceeded}, {terraform.OperationCheckDrift, terraform.OutcomeSucceeded}, {terraform.OperationCheckDrift, terraform.OutcomeNoChanges}}, "hello-r1"},
		{"an apply before failures", []ran{{terraform.OperationPlanAndApply, terraform.OutcomeSucceeded}, {terraform.OperationPlanAndApply, terraform.OutcomeFailed}, {terraform.OperationPlanAndApply, runs.OutcomeLost}}, "hello-r1"},
		{"the newest", []ran{{terraform.OperationPlanAndApply, terraform.OutcomeSucceeded}, {terraform.OperationPlanAndApply, terraform.OutcomeNoChanges}}, "hello-r2"},
		{"a restored state", []ran{{terraform.OperationPlanAndApply, terraform.OutcomeSucceeded}, {terraform.OperationRestoreState, terraform.OutcomeSucceeded}}, "hello-r2"},
		{"a destroy run", []ran{{terraform.OperationDestroy, terraform.OutcomeSucceeded}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			for _, run := range tt.runs {
				addRun(g, s, run.operation, terraform.Result{Outcome: run.outcome})
			}
			startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
			run := s.LatestOutputs()
			if tt.want == "" {
				g.Expect(run).To(BeNil())
				return
			}
			g.Expect(run.ID).To(Equal(tt.want))
		})
	}
}

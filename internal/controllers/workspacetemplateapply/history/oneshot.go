package history

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// recordOneShot records the result of a run of a one-shot operation. The operation is not
// repeated, whatever the outcome: the user who requested it sees why it failed. A run that
// was stopped before it changed anything did not happen.
func (s *Status) recordOneShot(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.Apply.Status
	once, _ := runs.ParseOneShotInputs(run.Inputs())
	stopped := outcome == terraform.OutcomeInterrupted && !runs.MayHaveChanged(result)
	switch {
	case outcome == terraform.OutcomePlanned && once.Kind != runs.KindPlanOnly, stopped:
		return
	case result.StalePlan:
		// Another plan is made, which waits for approval again.
		status.Plan = nil
		return
	}
	if plan := status.Plan; plan != nil && plan.Inputs == run.Inputs() {
		plan.Waiting = nil
	}
	switch {
	case once.Kind == runs.KindPlanOnly:
	case outcome == terraform.OutcomeSucceeded, outcome == terraform.OutcomeNoChanges:
		s.recordOneShotSuccess(result, once)
	case once.Kind == runs.KindRefreshOnly:
		// It changes no resource, and another run would revert what drifted.
	case runs.MayHaveChanged(result):
		status.AppliedInputs = ""
		if once.Kind != runs.KindTarget {
			status.Failure = nil
		}
		if outcome == runs.OutcomeCanceled {
			status.Failure = &infrav1.FailureStatus{
				Inputs: once.Inputs, Attempts: 1, Reason: infrav1.RunCanceledReason, Message: failureMessage(run, result, outcome),
			}
		}
	}
}

// recordOneShotSuccess records what is applied after a one-shot operation.
func (s *Status) recordOneShotSuccess(result *terraform.Result, once runs.OneShotRun) {
	status := &s.Apply.Status
	switch once.Kind {
	case runs.KindTarget:
		if result.Outcome == terraform.OutcomeNoChanges {
			return
		}
		// A part of the inputs is applied, and the others are still due. If their run was
		// canceled or failed for good, they stay so.
		if status.AppliedInputs != once.Inputs {
			status.AppliedInputs = ""
		}
		return
	case runs.KindRefreshOnly:
	default:
		status.AppliedInputs, status.AppliedAt, status.Failure = once.Inputs, metav1.NewTime(result.FinishedAt), nil
		if status.HeldBy == status.InterruptedBy {
			status.HeldBy = ""
		}
		status.InterruptedBy = ""
	}
	s.endDrift()
}

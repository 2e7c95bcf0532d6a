package history

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/template"
)

const (
	// maxFailureMessage is the size of the message of a failure, in bytes.
	maxFailureMessage = 4096
	// immediateRetries is the number of consecutive interruptions after which a
	// run is retried without delay.
	immediateRetries = 3
)

// recordFailure records why a run failed and when it is retried.
func (s *Status) recordFailure(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.Apply.Status
	if result.Operation == terraform.OperationCheckDrift {
		// The previous result stays, and no apply has failed.
		s.recordFailedCheck(run, result, outcome)
		return
	}
	if result.StalePlan || replacesPlan(result, outcome) && status.Plan.IsWaiting() {
		status.Plan = nil
	}
	if result.Operation == terraform.OperationStateCommand {
		// The user who gave the command sees why it failed, and may repeat it.
		if runs.MayHaveChanged(result) && !runs.ChangesNothing(result.Operation, run.Inputs()) {
			status.AppliedInputs, status.Plan = "", nil
		}
		return
	}
	if runs.MayHaveChanged(result) {
		// The previous inputs are not applied any more, either.
		status.AppliedInputs = ""
	}
	failure := &infrav1.FailureStatus{Inputs: run.Inputs(), Attempts: 1, Message: message.Truncate(failureMessage(run, result, outcome), maxFailureMessage)}
	if previous := status.Failure; previous != nil && previous.Inputs == failure.Inputs {
		failure.Attempts = previous.Attempts + 1
	}
	var retry retryMode
	failure.Reason, retry = classifyFailure(result, outcome)
	switch {
	case retry == retryNow && failure.Attempts <= immediateRetries:
		failure.NextAt = metav1.NewTime(result.FinishedAt)
	case retry != retryNever:
		failure.NextAt = metav1.NewTime(result.FinishedAt.Add(decision.Backoff(s.Policy, failure.Attempts)))
	}
	status.Failure = failure
}

// replacesPlan reports whether a failed run was to replace a plan that waits. The user
// requested it, so it is retried instead of waiting for the approval of that plan.
func replacesPlan(result *terraform.Result, outcome terraform.Outcome) bool {
	switch result.Operation {
	case terraform.OperationPlan, terraform.OperationPlanAndApply, terraform.OperationPlanDestroy, terraform.OperationDestroy:
		return result.Plan == nil && outcome != runs.OutcomeCanceled
	default:
		return false
	}
}

// retryMode is when a failed run is retried.
type retryMode int

const (
	// retryNever waits for a change of the inputs or a request of the user.
	retryNever retryMode = iota
	// retryLater retries with backoff.
	retryLater
	// retryNow retries at once, and with backoff after several failures.
	retryNow
)

// classifyFailure returns the condition reason of a failed run, and when it is
// retried.
func classifyFailure(result *terraform.Result, outcome terraform.Outcome) (string, retryMode) {
	// The runs of a deletion are always retried: their problems are rarely in the inputs.
	unlessDestroying := retryNever
	if result.Operation.Destroys() || result.Operation == terraform.OperationSaveState {
		unlessDestroying = retryLater
	}
	switch {
	case outcome == runs.OutcomeCanceled:
		return infrav1.RunCanceledReason, retryNever
	case result.StalePlan:
		return infrav1.PlanStaleReason, retryNow
	case outcome == terraform.OutcomeInterrupted, outcome == runs.OutcomeLost:
		return infrav1.RunInterruptedReason, retryNow
	case outcome == terraform.OutcomeBlocked:
		return infrav1.ProtectedResourceReason, retryLater
	case outcome == terraform.OutcomeTimedOut:
		return infrav1.RunTimedOutReason, retryLater
	case result.StateTooLarge:
		return infrav1.StateTooLargeReason, unlessDestroying
	case result.OutputsTooLarge:
		return infrav1.OutputsTooLargeReason, unlessDestroying
	case result.StateProblem != "":
		// The reasons have the names of the problems.
		return string(result.StateProblem), unlessDestroying
	case result.SnapshotMissing:
		return infrav1.SnapshotNotFoundReason, retryNever
	case result.ToolNotAvailable:
		return infrav1.ToolNotAvailableReason, unlessDestroying
	case result.InvalidInputs != "":
		return template.ReasonOf(inspect.Kind(result.InvalidInputs)), retryNever
	case result.Class == terraform.ClassLockHeld:
		return infrav1.LockHeldReason, retryLater
	case result.Class == terraform.ClassTerminal:
		return infrav1.RunFailedReason, unlessDestroying
	default:
		return infrav1.RetryingReason, retryLater
	}
}

func failureMessage(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) string {
	switch outcome {
	case runs.OutcomeCanceled:
		return fmt.Sprintf("Run %s was canceled: change the inputs or request a run with captctl reconcile", run.ID)
	case terraform.OutcomeBlocked:
		return decision.ProtectedMessage(result.Blocked)
	default:
		return Summary(result)
	}
}

package workspacetemplateapply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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
func (s *status) recordFailure(run *runRecord, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.apply.Status
	if result.Operation == terraform.OperationCheckDrift {
		// The previous result stays, and no apply has failed.
		s.recordFailedCheck(run, result, outcome)
		return
	}
	if result.StalePlan || replacesPlan(result, outcome) && status.Plan != nil && isWaiting(status.Plan) {
		status.Plan = nil
	}
	if result.Operation == terraform.OperationStateCommand {
		// The user who gave the command sees why it failed, and may repeat it.
		if mayHaveChanged(result) && !changesNothing(result.Operation, run.inputs()) {
			status.AppliedInputs, status.Plan = "", nil
		}
		return
	}
	if mayHaveChanged(result) {
		// The previous inputs are not applied any more, either.
		status.AppliedInputs = ""
	}
	failure := &infrav1.FailureStatus{Inputs: run.inputs(), Attempts: 1, Message: message.Truncate(failureMessage(run, result, outcome), maxFailureMessage)}
	if previous := status.Failure; previous != nil && previous.Inputs == failure.Inputs {
		failure.Attempts = previous.Attempts + 1
	}
	var retry retryMode
	failure.Reason, retry = classifyFailure(result, outcome)
	switch {
	case retry == retryNow && failure.Attempts <= immediateRetries:
		failure.NextAt = metav1.NewTime(result.FinishedAt)
	case retry != retryNever:
		failure.NextAt = metav1.NewTime(result.FinishedAt.Add(backoff(s.policy, failure.Attempts)))
	}
	status.Failure = failure
}

// replacesPlan reports whether a failed run was to replace a plan that waits. The user
// requested it, so it is retried instead of waiting for the approval of that plan.
func replacesPlan(result *terraform.Result, outcome terraform.Outcome) bool {
	switch result.Operation {
	case terraform.OperationPlan, terraform.OperationPlanAndApply, terraform.OperationPlanDestroy, terraform.OperationDestroy:
		return result.Plan == nil && outcome != outcomeCanceled
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
	case outcome == outcomeCanceled:
		return infrav1.RunCanceledReason, retryNever
	case result.StalePlan:
		return infrav1.PlanStaleReason, retryNow
	case outcome == terraform.OutcomeInterrupted, outcome == outcomeLost:
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

func failureMessage(run *runRecord, result *terraform.Result, outcome terraform.Outcome) string {
	switch outcome {
	case outcomeCanceled:
		return fmt.Sprintf("Run %s was canceled: change the inputs or request a run with the annotation %s", run.id, infrav1.RunRequestedAnnotation)
	case terraform.OutcomeBlocked:
		return protectedMessage(result.Blocked)
	default:
		return summary(result)
	}
}

// mayHaveChanged reports whether a failed run may have changed resources or the
// state.
func mayHaveChanged(result *terraform.Result) bool {
	switch {
	case result.Outcome == outcomeLost:
		return !result.Unclaimed && !result.Operation.SavesPlan() && result.Operation != terraform.OperationCheckDrift
	case result.Operation == terraform.OperationRestoreState:
		return !result.SnapshotMissing
	}
	return result.ChangesState()
}

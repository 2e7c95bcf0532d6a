package workspacetemplateapply

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// outcomeCanceled is a run that a person stopped, outcomeLost one that ended
// without a word.
const (
	outcomeCanceled terraform.Outcome = "Canceled"
	outcomeLost     terraform.Outcome = "Lost"
)

// history takes in the results of runs that have ended, the oldest first. The
// runs' Secrets are the truth: a status that was lost is made anew from them.
func (r *Reconciler) history(ctx context.Context, s *scope) error {
	if s.current() == nil {
		s.apply.Status.Run = nil
	}
	for _, run := range slices.Backward(s.runs) {
		if !record.Finished(run.secret) || s.recorded(run) {
			continue
		}
		result, err := record.Result(run.secret)
		if err != nil {
			return err
		}
		if runner, found := r.Runners[run.executor()]; found && result.Outcome != outcomeLost {
			// All there is to know is on record; pods and accounts would pile up.
			if err := runner.Forget(ctx, run.ref()); err != nil {
				return fmt.Errorf("forgetting run %s: %w", run.id, err)
			}
		}
		s.take(run, result)
		observeRun(run, result)
		ctrl.LoggerFrom(ctx).Info("Run ended", "run", run.id, "operation", result.Operation, "outcome", result.Outcome,
			"duration", result.FinishedAt.Sub(result.StartedAt).Round(time.Millisecond).String())
		r.queue.Release(s.slot())
	}
	return nil
}

// recorded tells whether a run has been taken in.
func (s *scope) recorded(run *runRecord) bool {
	if slices.ContainsFunc(s.apply.Status.History, func(h infrav1.RunRecord) bool { return h.ID == run.id }) {
		return true
	}
	// Older than everything that is remembered.
	h := s.apply.Status.History
	if len(h) == 0 {
		return false
	}
	oldest, err := runNumber(h[len(h)-1].ID)
	return err == nil && run.number < oldest
}

// take writes what came of a run into the status.
func (s *scope) take(run *runRecord, result *terraform.Result) {
	status := &s.apply.Status
	outcome := result.Outcome
	stopped := outcome == terraform.OutcomeInterrupted || outcome == outcomeLost
	if stopped && s.apply.Annotations[infrav1.CancelRunAnnotation] == run.id {
		outcome = outcomeCanceled
	}
	status.Runs = max(status.Runs, run.number)
	if request := run.secret.Annotations[record.RequestAnnotation]; request != "" {
		status.HandledRequest = request
	}
	if restored := run.secret.Annotations[record.RestoredAnnotation]; restored != "" {
		status.HandledRestore = restored
	}
	status.History = slices.Insert(status.History, 0, infrav1.RunRecord{
		ID: run.id, Operation: infrav1.RunOperation(result.Operation), Outcome: infrav1.RunOutcome(outcome),
		StartedAt: metav1.NewTime(result.StartedAt), Duration: metav1.Duration{Duration: result.FinishedAt.Sub(result.StartedAt).Round(time.Millisecond)},
		Summary: limit(summary(result), 2048),
	})
	limit := 10
	if s.apply.Spec.HistoryLimit != nil {
		limit = int(*s.apply.Spec.HistoryLimit)
	}
	status.History = status.History[:min(limit, len(status.History))]
	was := status.Plan.DeepCopy()
	if result.Plan != nil {
		status.Plan = planStatus(run, result)
	} else if result.Operation == terraform.OperationApply && status.Plan != nil {
		status.Plan.Waiting = new(outcome != terraform.OutcomeSucceeded)
		status.Plan.Blocked = result.Blocked[:min(len(result.Blocked), longestList)]
	}
	switch outcome {
	case terraform.OutcomeSucceeded, terraform.OutcomeNoChanges:
		s.takeSuccess(run, result)
	case terraform.OutcomePlanned:
		status.Failure = nil
	case terraform.OutcomeBlocked:
		if !sameBlock(was, status.Plan) {
			status.Failure = nil
			return
		}
		// It was thought to be released, and is not: no hurry to try again.
		s.takeFailure(run, result, outcome)
	default:
		s.takeFailure(run, result, outcome)
	}
}

// sameBlock tells whether protection refused a plan like the one before.
func sameBlock(was, is *infrav1.PlanStatus) bool {
	return was != nil && is != nil && was.Inputs == is.Inputs && len(is.Blocked) > 0 && slices.Equal(was.Blocked, is.Blocked)
}

func (s *scope) takeSuccess(run *runRecord, result *terraform.Result) {
	status := &s.apply.Status
	status.Failure = nil
	if result.State.Lineage != "" {
		if status.State == nil {
			status.State = &infrav1.StateStatus{}
		}
		status.State.Serial, status.State.Resources = int64(result.State.Serial), int32(result.State.Resources)
	}
	switch result.Operation {
	case terraform.OperationCheckDrift:
		status.Drift = &infrav1.DriftStatus{CheckedAt: metav1.NewTime(result.FinishedAt), Resources: changes(result.Drift), Request: run.secret.Annotations[record.DriftAnnotation]}
	case terraform.OperationRestoreState:
		// What is wanted has to be planned again over the restored state.
		status.HandledRestore = strings.TrimPrefix(run.inputs(), restoring)
		status.AppliedInputs, status.Plan = "", nil
	case terraform.OperationDestroy:
		status.AppliedInputs, status.Outputs = "", nil
	default:
		status.AppliedInputs, status.AppliedAt = run.inputs(), metav1.NewTime(result.FinishedAt)
		if status.Drift != nil {
			status.Drift.Resources = nil
		}
	}
}

// takeFailure remembers why a run failed and when to try again.
func (s *scope) takeFailure(run *runRecord, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.apply.Status
	if result.Operation == terraform.OperationCheckDrift {
		// Nothing is known about drift, and nothing else is wrong.
		drift := status.Drift.DeepCopy()
		if drift == nil {
			drift = &infrav1.DriftStatus{}
		}
		drift.CheckedAt, drift.Request = metav1.NewTime(result.FinishedAt), run.secret.Annotations[record.DriftAnnotation]
		status.Drift = drift
		return
	}
	if result.StalePlan {
		status.Plan = nil
	}
	if mayHaveChanged(result) {
		// Going back to what was applied before is then a change, too.
		status.AppliedInputs = ""
	}
	failure := &infrav1.FailureStatus{Inputs: run.inputs(), Attempts: 1, Message: limit(summary(result), 4096)}
	if was := status.Failure; was != nil && was.Inputs == failure.Inputs {
		failure.Attempts = was.Attempts + 1
	}
	again := true
	switch {
	case outcome == outcomeCanceled:
		failure.Reason, again = infrav1.RunCanceledReason, false
		failure.Message = fmt.Sprintf("Run %s was canceled: change the inputs, or ask for a run by the annotation %s", run.id, infrav1.RunRequestedAnnotation)
	case outcome == terraform.OutcomeInterrupted, outcome == outcomeLost, result.StalePlan:
		// Nothing is wrong with the inputs: go on at once.
		failure.Reason, failure.NextAt = infrav1.RunInterruptedReason, metav1.NewTime(result.FinishedAt)
		if result.StalePlan {
			failure.Reason = infrav1.PlanStaleReason
		}
		if failure.Attempts <= 3 {
			status.Failure = failure
			return
		}
	case outcome == terraform.OutcomeBlocked:
		failure.Reason, failure.Message = infrav1.ProtectedResourceReason, limit(protectedMessage(result.Blocked), 4096)
	case outcome == terraform.OutcomeTimedOut:
		failure.Reason = infrav1.RunTimedOutReason
	case result.StateTooLarge:
		failure.Reason, again = infrav1.StateTooLargeReason, false
	case result.StateMissing:
		failure.Reason, again = infrav1.StateMissingReason, result.Operation == terraform.OperationDestroy
	case result.SnapshotMissing:
		failure.Reason, again = infrav1.SnapshotNotFoundReason, false
	case result.InvalidInputs != "":
		failure.Reason, again = template.ReasonOf(inspect.Kind(result.InvalidInputs)), false
	case result.Class == terraform.ClassLockHeld:
		failure.Reason = infrav1.LockHeldReason
	case result.Class == terraform.ClassTerminal:
		// A destruction is tried again: what hinders it is rarely in the inputs.
		failure.Reason, again = infrav1.RunFailedReason, result.Operation == terraform.OperationDestroy
	default:
		failure.Reason = infrav1.RetryingReason
	}
	if again {
		failure.NextAt = metav1.NewTime(result.FinishedAt.Add(backoff(s.policy, failure.Attempts)))
	}
	status.Failure = failure
}

// mayHaveChanged tells whether a run that failed may have done some of what it
// was to do.
func mayHaveChanged(result *terraform.Result) bool {
	switch {
	case result.Outcome == outcomeLost:
		return result.Operation != terraform.OperationPlan
	case result.Operation == terraform.OperationRestoreState:
		return !result.SnapshotMissing
	}
	return slices.ContainsFunc(result.Phases, func(p terraform.PhaseTime) bool {
		return p.Name == terraform.PhaseApplying || p.Name == terraform.PhaseDestroying
	})
}

// restoring leads the inputs of a run that restores a snapshot.
const restoring = "restore "

// restoreInputs stands for the inputs of a run that restores a snapshot.
func restoreInputs(snapshot string) string { return restoring + snapshot }

// summary says in short what a run did, or why it did not.
func summary(result *terraform.Result) string {
	switch result.Outcome {
	case terraform.OutcomePlanned, terraform.OutcomeBlocked:
		if result.Plan == nil {
			return string(result.Outcome)
		}
		return fmt.Sprintf("%d to add, %d to change, %d to destroy", result.Plan.Add, result.Plan.Change, result.Plan.Destroy)
	case terraform.OutcomeSucceeded:
		if result.Operation == terraform.OperationCheckDrift {
			return fmt.Sprintf("%d resources drifted", len(result.Drift))
		}
		if result.Plan == nil {
			return string(result.Outcome)
		}
		return fmt.Sprintf("%d added, %d changed, %d destroyed", result.Plan.Add, result.Plan.Change, result.Plan.Destroy)
	case terraform.OutcomeNoChanges:
		return "Nothing to do"
	}
	if text := result.Diagnostics.Short(); text != "" {
		return text
	}
	return string(result.Outcome)
}

func limit(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes-3], "") + "..."
}

// longestList bounds the lists of a status.
const longestList = 100

func planStatus(run *runRecord, result *terraform.Result) *infrav1.PlanStatus {
	p := result.Plan
	status := &infrav1.PlanStatus{
		ID: p.ID, Run: run.id, CreatedAt: metav1.NewTime(result.FinishedAt), Inputs: run.inputs(),
		Add: int32(p.Add), Change: int32(p.Change), Destroy: int32(p.Destroy), Changes: changes(p.Changes),
		Blocked: result.Blocked[:min(len(result.Blocked), longestList)],
	}
	if result.Outcome == terraform.OutcomePlanned || result.Outcome == terraform.OutcomeBlocked {
		status.Waiting = new(true)
	}
	status.OmittedChanges = int32(len(p.Changes) - len(status.Changes))
	return status
}

func changes(in []terraform.Change) []infrav1.ResourceChange {
	var out []infrav1.ResourceChange
	for _, c := range in[:min(len(in), longestList)] {
		out = append(out, infrav1.ResourceChange{Address: limit(c.Address, 1024), Action: string(c.Action)})
	}
	return out
}

// jitter is the workspace's own place in an interval, between -1 and 1.
func jitter(s *scope) float64 {
	var h uint32 = 2166136261
	for _, b := range []byte(s.apply.Namespace + "/" + s.apply.Name) {
		h = (h ^ uint32(b)) * 16777619
	}
	return 2*float64(h)/math.MaxUint32 - 1
}

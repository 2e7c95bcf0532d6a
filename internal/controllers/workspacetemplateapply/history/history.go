// Package history records in the status of a workspace, in events, metrics and traces what
// its runs and its users did, and publishes the outputs.
package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// MaxSummary is the size of the summary of a run in the status, in bytes.
const MaxSummary = 2048

// Limits of the status.
const (
	// maxAddress is the size of a resource address, in bytes.
	maxAddress = 1024
	// maxSaved is the number of rescued states that one run can save.
	maxSaved = 1000
	// maxList is the number of entries of a list.
	maxList = 100
)

// Status is the Status of a workspace, in which the results of its runs are recorded.
type Status struct {
	*runs.Workspace
	// Policy is the policy of the runs. It has defaults if the template does not exist.
	Policy template.Policy
	// Policies decide about the plan of the next run. It is nil if none applies.
	Policies *terraform.Policies
}

// Recorder records the results of runs that have ended.
type Recorder struct {
	*runs.Numbers
	Queue *queue.Queue
	// Counted has the number of the latest run in the metrics, by the UID of the workspace.
	Counted  *sync.Map
	Recorder events.EventRecorder
	// Tracer receives the traces of runs. It may be nil.
	Tracer trace.Tracer
}

// History records the results of runs that have ended in the status, the oldest
// first. The Secrets of the runs are the source of truth: a lost status is
// restored from them.
func (r *Recorder) History(ctx context.Context, s *Status) error {
	if err := r.sealEnded(ctx, s); err != nil {
		return err
	}
	if s.Current() == nil {
		s.Apply.Status.Run = nil
	}
	for _, run := range slices.Backward(s.Runs) {
		if !s.IsNew(run) {
			continue
		}
		if err := r.RecordRun(ctx, s, run); err != nil {
			return err
		}
	}
	s.keepLineage()
	return nil
}

// RecordRun records the result of a run in the status. Requests to the API server may take
// long, so none is made while a large result is in memory.
func (r *Recorder) RecordRun(ctx context.Context, s *Status, run *runs.Run) error {
	digest := run.Result()
	limitTimes(digest, s.Now)
	if s.Current() == nil && run.Number >= max(s.Apply.Status.Runs, r.LastActive(s.Workspace).Number) {
		// The next run can start while this one is recorded, unless it has: then a write of
		// the status has failed.
		r.Queue.Release(s.Slot())
	}
	if digest.Outcome != runs.OutcomeLost || digest.Withdrawn {
		// The record is complete. Pods and service accounts would pile up.
		if err := r.Runners.Forget(ctx, run); err != nil {
			return err
		}
	}
	if err := r.unblockMove(ctx, run); err != nil {
		return err
	}
	if err := r.SupersedeRescued(ctx, s, run, digest); err != nil {
		return err
	}
	before := s.Apply.Status.DeepCopy()
	saved, notMerged, err := r.recordWhole(ctx, s, run)
	if err == nil {
		err = r.deleteRescued(ctx, s, saved)
	}
	if err == nil {
		err = r.markNotMerged(ctx, s, notMerged)
	}
	if err == nil {
		err = r.showPlan(ctx, s, run)
	}
	if err == nil {
		err = r.showRun(ctx, s, run)
	}
	if err != nil {
		// The status is written whatever the error is. A run that is in it is not recorded again.
		s.Apply.Status = *before
		return err
	}
	s.StatusChanged = true
	return nil
}

// recordWhole records what the digest of a result does not have, and counts the run. It
// returns the rescued states that the run has saved, and those that it cannot merge.
func (r *Recorder) recordWhole(ctx context.Context, s *Status, run *runs.Run) (saved []string, notMerged map[string]int, err error) {
	result, err := r.Whole(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	// A runner of another version may not have done it.
	result.Redact(terraform.NewRedactor())
	if run.Number <= s.Apply.Status.Runs {
		// The Secret of a run that was moved, or restored from a backup, is younger than the run.
		startAfter(result, run.Secret.CreationTimestamp.Time)
	}
	if active := r.LastActive(s.Workspace); active.Number == run.Number {
		endAfter(result, active.Seen, s.Now)
	}
	limitTimes(result, s.Now)
	s.RecordResult(run, result)
	s.RecordModule(run, result)
	s.RecordState(run, result)
	// A run is recorded again if the write of the status failed.
	if counted, found := r.Counted.Load(s.Apply.UID); !found || counted.(int64) < run.Number {
		r.Counted.Store(s.Apply.UID, run.Number)
		ObserveRun(run, result, s.Outcome(run, result))
		TraceRun(ctx, r.Tracer, s.Apply, run, result)
		r.reportViolations(s, run)
		ctrl.LoggerFrom(ctx).Info("Run ended", "run", run.ID, "operation", result.Operation, "outcome", result.Outcome,
			"duration", Duration(result).String())
	}
	return firstOf(slices.DeleteFunc(result.Saved, func(name string) bool { return len(name) > runs.MaxName }), maxSaved), result.NotMerged, nil
}

// unblockMove lets clusterctl move a run that has ended.
func (r *Recorder) unblockMove(ctx context.Context, run *runs.Run) error {
	if _, blocked := run.Secret.Annotations[record.BlockMoveAnnotation]; !blocked {
		return nil
	}
	if err := r.Annotate(ctx, run.Secret, record.BlockMoveAnnotation, nil); err != nil {
		return fmt.Errorf("allowing the move of run %s: %w", run.ID, err)
	}
	return nil
}

// RecordResult writes the result of a run into the status.
func (s *Status) RecordResult(run *runs.Run, result *terraform.Result) {
	status := &s.Apply.Status
	outcome := s.Outcome(run, result)
	status.Runs = max(status.Runs, run.Number)
	if result.Withdrawn && outcome != runs.OutcomeCanceled {
		// It did not happen: what it was to do is decided again.
		s.addHistory(run, result, outcome)
		return
	}
	s.addHistory(run, result, outcome)
	if request := run.Request(); request != nil && runs.ReplacesState(run.Operation()) && !runs.ChangesNothing(run.Operation(), run.Inputs()) {
		status.StateChangedBy = request.RequestedBy
	}
	s.recordInterrupt(run, result, outcome)
	previousPlan := status.Plan.DeepCopy()
	if result.Plan != nil {
		status.Plan = planStatus(run, result)
	} else if result.Operation.AppliesPlan() && status.Plan != nil {
		status.Plan.Waiting = new(outcome != terraform.OutcomeSucceeded)
		status.Plan.Blocked = shownAddresses(result.Blocked)
		recordViolations(status.Plan, run, result)
	}
	if _, ok := runs.ParseOneShotInputs(run.Inputs()); ok {
		s.recordOneShot(run, result, outcome)
		return
	}
	switch outcome {
	case terraform.OutcomeSucceeded, terraform.OutcomeNoChanges:
		if result.Operation == terraform.OperationStateCommand && runs.ChangesNothing(result.Operation, run.Inputs()) {
			return
		}
		s.recordSuccess(run, result)
	case terraform.OutcomePlanned, terraform.OutcomeDenied:
		status.Failure = nil
		if outcome == terraform.OutcomePlanned && result.Operation == terraform.OperationPlanAndApply {
			status.HeldBy = cmp.Or(status.HeldBy, status.InterruptedBy)
		}
	case terraform.OutcomeBlocked:
		if !sameBlock(previousPlan, status.Plan) {
			status.Failure = nil
			return
		}
		// The controller considered the resources released, but the runner did
		// not. Retry with backoff.
		s.recordFailure(run, result, outcome)
	default:
		s.recordFailure(run, result, outcome)
	}
}

// recordInterrupt records that a run was stopped while it changed resources: it may have left one
// tainted that is complete. So may the run before it, if that has left no report.
func (s *Status) recordInterrupt(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	status := &s.Apply.Status
	stopped := slices.Contains([]terraform.Outcome{terraform.OutcomeInterrupted, terraform.OutcomeTimedOut, runs.OutcomeCanceled, runs.OutcomeLost}, outcome)
	if stopped && runs.MayHaveChanged(result) && result.Operation != terraform.OperationStateCommand {
		status.InterruptedBy = run.ID
		return
	}
	if previous, _ := s.PreviousState(run); previous != nil && previous.Confirmation == infrav1.StateUnconfirmed {
		status.InterruptedBy = cmp.Or(status.InterruptedBy, run.ID)
	}
}

// addHistory adds a run to the history.
func (s *Status) addHistory(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	history := slices.Insert(s.Apply.Status.History, 0, infrav1.RunRecord{
		ID: run.ID, Operation: infrav1.RunOperation(result.Operation), Outcome: infrav1.RunOutcome(outcome),
		StartedAt: metav1.NewTime(result.StartedAt), Duration: metav1.Duration{Duration: Duration(result)},
		Summary: message.Truncate(Summary(result), MaxSummary), Request: run.Request(),
	})
	s.Apply.Status.History = history[:min(runs.HistoryLimit(s.Apply), len(history))]
}

// sameBlock reports whether protection blocked a plan for the same resources as
// the previous plan.
func sameBlock(previous, current *infrav1.PlanStatus) bool {
	return previous != nil && current != nil && previous.Inputs == current.Inputs &&
		len(current.Blocked) > 0 && slices.Equal(previous.Blocked, current.Blocked)
}

func (s *Status) recordSuccess(run *runs.Run, result *terraform.Result) {
	status := &s.Apply.Status
	status.Failure = nil
	switch result.Operation {
	case terraform.OperationCheckDrift:
		status.Drift = &infrav1.DriftStatus{
			CheckedAt: metav1.NewTime(result.FinishedAt), Resources: ResourceChanges(result.Drift),
		}
	case terraform.OperationRestoreState, terraform.OperationStateCommand, terraform.OperationMoveState:
		// The desired inputs have to be planned again for the changed state.
		status.AppliedInputs, status.Plan = "", nil
		status.HeldBy = cmp.Or(run.Secret.Annotations[record.HoldAnnotation], status.HeldBy)
	case terraform.OperationSaveState:
	case terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy:
		status.AppliedInputs, status.Outputs = "", nil
	default:
		s.recordApplied(run.Inputs(), result)
	}
}

// recordApplied records that all inputs are applied.
func (s *Status) recordApplied(inputs string, result *terraform.Result) {
	status := &s.Apply.Status
	status.AppliedInputs, status.AppliedAt = inputs, metav1.NewTime(result.FinishedAt)
	status.HeldBy, status.InterruptedBy, status.StateChangedBy = "", "", ""
	s.endDrift()
}

// keepLineage records the lineage of the state where it survives a move to another management
// cluster or a restore. The status does not.
func (s *Status) keepLineage() {
	state := s.Apply.Status.State
	if state == nil || state.Lineage == "" || s.Apply.Annotations[infrav1.StateLineageAnnotation] == state.Lineage {
		return
	}
	if s.Apply.Annotations == nil {
		s.Apply.Annotations = map[string]string{}
	}
	s.Apply.Annotations[infrav1.StateLineageAnnotation] = state.Lineage
}

// sealEnded seals the runs that have ended and have no seal of this manager, before
// anything is recorded: the status, by which they are known now, will forget them. It
// returns a conflict until the cache has the seals.
func (r *Recorder) sealEnded(ctx context.Context, s *Status) error {
	sealed := false
	for _, run := range s.Runs {
		if run.Origin == runs.OriginSealed || !record.Finished(run.Secret) {
			continue
		}
		changed := run.Secret.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		// The run may have written it, to have tokens signed with other credentials.
		delete(changed.Annotations, record.ObjectsAnnotation)
		changed.Annotations[record.OperationAnnotation] = string(run.Operation())
		if inputs := run.Inputs(); inputs != "" {
			changed.Annotations[record.InputsAnnotation] = inputs
		}
		s.Seal(changed)
		// The cache has only parts of the Secret, so it is patched, not updated.
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(run.Secret, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("sealing run %s: %w", run.ID, err)
		}
		sealed = true
	}
	if sealed {
		return s.StaleCache()
	}
	return nil
}

// maxSkew is how much a run may end before the manager saw it running. Caches are a little
// behind.
const maxSkew = time.Minute

// endAfter makes a run end now if it says that it ended before it was last seen running: the
// clock of its node is behind. Retries would start at once.
func endAfter(result *terraform.Result, seen, now time.Time) {
	if seen.Sub(result.FinishedAt) > maxSkew {
		result.StartedAt, result.FinishedAt = result.StartedAt.Add(now.Sub(result.FinishedAt)), now
	}
}

// startAfter makes a run start after its Secret was created, and end as much later. The clock
// of its node may be behind that of the API server: retries would start at once.
func startAfter(result *terraform.Result, created time.Time) {
	if behind := created.Sub(result.StartedAt); behind > 0 {
		result.StartedAt, result.FinishedAt = created, result.FinishedAt.Add(behind)
	}
}

// limitTimes makes a run end after its start and before now. The run reports when it started and
// ended, and retries and the next check of drift follow from that: they would never start, or
// always at once.
func limitTimes(result *terraform.Result, now time.Time) {
	if result.FinishedAt.Before(result.StartedAt) {
		result.FinishedAt = result.StartedAt
	}
	if result.FinishedAt.After(now) {
		result.FinishedAt = now
	}
	if result.StartedAt.After(result.FinishedAt) {
		result.StartedAt = result.FinishedAt
	}
}

// Duration returns how long a run took.
func Duration(result *terraform.Result) time.Duration {
	return result.FinishedAt.Sub(result.StartedAt).Round(time.Millisecond)
}

// maxCurrent is the number of resources in the progress of the status.
const maxCurrent = 10

// SetRunStatus writes a run that has not ended into the status. The progress may
// be nil.
func (s *Status) SetRunStatus(run *runs.Run, progress *terraform.Progress) {
	started := run.Secret.CreationTimestamp
	if started.IsZero() {
		started = metav1.NewTime(s.Now)
	}
	s.Apply.Status.Run = &infrav1.RunStatus{
		ID: run.ID, Operation: infrav1.RunOperation(run.Operation()), Inputs: run.Inputs(), StartedAt: started, Request: run.Request(),
	}
	if progress == nil {
		return
	}
	s.Apply.Status.Run.Progress = shownProgress(progress)
}

// shownProgress returns a progress as the status shows it. The run wrote it: what the schema
// of the status does not allow would prevent every write of the status.
func shownProgress(progress *terraform.Progress) *infrav1.RunProgress {
	shown := &infrav1.RunProgress{Phase: message.Truncate(string(progress.Phase), runs.MaxWord), Done: count(progress.Done), Total: count(progress.Total)}
	for _, c := range firstOf(progress.Current, maxCurrent) {
		if c.Address != "" {
			shown.Current = append(shown.Current, infrav1.CurrentResource{
				Address: message.Truncate(c.Address, maxAddress), Action: message.Truncate(string(c.Action), runs.MaxWord), Since: metav1.NewTime(c.Since),
			})
		}
	}
	return shown
}

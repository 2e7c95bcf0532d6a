package workspacetemplateapply

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

const (
	// outcomeCanceled is the outcome of a run that the user canceled.
	outcomeCanceled terraform.Outcome = "Canceled"
	// outcomeLost is the outcome of a run that ended without a result.
	outcomeLost terraform.Outcome = "Lost"
)

// defaultHistoryLimit is the default of spec.historyLimit.
const defaultHistoryLimit = 10

// maxSummary is the size of the summary of a run in the status, in bytes.
const maxSummary = 2048

// Limits of the status.
const (
	// maxAddress is the size of a resource address, in bytes.
	maxAddress = 1024
	// maxSaved is the number of rescued states that one run can save.
	maxSaved = 1000
	// maxList is the number of entries of a list.
	maxList = 100
)

// status is the status of a workspace, in which the results of its runs are recorded.
type status struct {
	*workspace
	// policy is the policy of the runs. It has defaults if the template does not exist.
	policy template.Policy
	// policies decide about the plan of the next run. It is nil if none applies.
	policies *terraform.Policies
}

// recorder records the results of runs that have ended.
type recorder struct {
	*numbers
	queue *queue.Queue
	// counted has the number of the latest run in the metrics, by the UID of the workspace.
	counted  *sync.Map
	Recorder events.EventRecorder
	// Tracer receives the traces of runs. It may be nil.
	Tracer trace.Tracer
}

// history records the results of runs that have ended in the status, the oldest
// first. The Secrets of the runs are the source of truth: a lost status is
// restored from them.
func (r *recorder) history(ctx context.Context, s *status) error {
	if err := r.sealEnded(ctx, s); err != nil {
		return err
	}
	if s.current() == nil {
		s.apply.Status.Run = nil
	}
	for _, run := range slices.Backward(s.runs) {
		if !s.isNew(run) {
			continue
		}
		if err := r.recordRun(ctx, s, run); err != nil {
			return err
		}
	}
	s.keepLineage()
	return nil
}

// recordRun records the result of a run in the status. Requests to the API server may take
// long, so none is made while a large result is in memory.
func (r *recorder) recordRun(ctx context.Context, s *status, run *runRecord) error {
	digest := run.result()
	limitTimes(digest, s.now)
	if s.current() == nil && run.number >= max(s.apply.Status.Runs, r.lastActive(s.workspace).number) {
		// The next run can start while this one is recorded, unless it has: then a write of
		// the status has failed.
		r.queue.Release(s.slot())
	}
	if digest.Outcome != outcomeLost || digest.Withdrawn {
		// The record is complete. Pods and service accounts would pile up.
		if err := r.Runners.forget(ctx, run); err != nil {
			return err
		}
	}
	if err := r.unblockMove(ctx, run); err != nil {
		return err
	}
	if err := r.supersedeRescued(ctx, s, run, digest); err != nil {
		return err
	}
	before := s.apply.Status.DeepCopy()
	saved, err := r.recordWhole(ctx, s, run)
	if err == nil {
		err = r.deleteRescued(ctx, s, saved)
	}
	if err != nil {
		// The status is written whatever the error is. A run that is in it is not recorded again.
		s.apply.Status = *before
		return err
	}
	s.statusChanged = true
	return nil
}

// recordWhole records what the digest of a result does not have, and counts the run. It
// returns the rescued states that the run has saved.
func (r *recorder) recordWhole(ctx context.Context, s *status, run *runRecord) (saved []string, err error) {
	result, err := r.whole(ctx, run)
	if err != nil {
		return nil, err
	}
	// A runner of another version may not have done it.
	result.Redact(terraform.NewRedactor())
	if run.number <= s.apply.Status.Runs {
		// The Secret of a run that was moved, or restored from a backup, is younger than the run.
		startAfter(result, run.secret.CreationTimestamp.Time)
	}
	if active := r.lastActive(s.workspace); active.number == run.number {
		endAfter(result, active.seen, s.now)
	}
	limitTimes(result, s.now)
	s.recordResult(run, result)
	s.recordModule(run, result)
	s.recordState(run, result)
	// A run is recorded again if the write of the status failed.
	if counted, found := r.counted.Load(s.apply.UID); !found || counted.(int64) < run.number {
		r.counted.Store(s.apply.UID, run.number)
		observeRun(run, result, s.outcome(run, result))
		traceRun(ctx, r.Tracer, s.apply, run, result)
		r.reportViolations(s, run)
		ctrl.LoggerFrom(ctx).Info("Run ended", "run", run.id, "operation", result.Operation, "outcome", result.Outcome,
			"duration", duration(result).String())
	}
	return firstOf(slices.DeleteFunc(result.Saved, func(name string) bool { return len(name) > maxName }), maxSaved), nil
}

// unblockMove lets clusterctl move a run that has ended.
func (r *recorder) unblockMove(ctx context.Context, run *runRecord) error {
	if _, blocked := run.secret.Annotations[record.BlockMoveAnnotation]; !blocked {
		return nil
	}
	if err := r.annotate(ctx, run.secret, record.BlockMoveAnnotation, nil); err != nil {
		return fmt.Errorf("allowing the move of run %s: %w", run.id, err)
	}
	return nil
}

// annotate sets an annotation of a Secret, or removes it if the value is nil. It changes
// neither the given object nor another Secret of the name.
func (r *store) annotate(ctx context.Context, secret *corev1.Secret, name string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "annotations": map[string]*string{name: value}}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
}

// isNew reports whether a run has ended and its result is not in the status yet.
func (s *workspace) isNew(run *runRecord) bool {
	return record.Finished(run.secret) && !isRecorded(s.apply.Status.History, run)
}

// isRecorded reports whether a run is in the history, or older than the oldest
// run in it.
func isRecorded(history []infrav1.RunRecord, run *runRecord) bool {
	if slices.ContainsFunc(history, func(h infrav1.RunRecord) bool { return h.ID == run.id }) {
		return true
	}
	if len(history) == 0 {
		return false
	}
	oldest, err := record.RunNumber(history[len(history)-1].ID)
	return err == nil && run.number < oldest
}

// historyLimit returns the number of runs that are kept.
func historyLimit(apply *infrav1.WorkspaceTemplateApply) int {
	if apply.Spec.HistoryLimit != nil {
		return int(*apply.Spec.HistoryLimit)
	}
	return defaultHistoryLimit
}

// recordResult writes the result of a run into the status.
func (s *status) recordResult(run *runRecord, result *terraform.Result) {
	status := &s.apply.Status
	outcome := s.outcome(run, result)
	status.Runs = max(status.Runs, run.number)
	if result.Withdrawn && outcome != outcomeCanceled {
		// It did not happen: what it was to do is decided again.
		s.addHistory(run, result, outcome)
		return
	}
	if request := run.secret.Annotations[record.RequestAnnotation]; request != "" {
		status.HandledRequest = request
	}
	if restored := run.secret.Annotations[record.RestoredAnnotation]; restored != "" {
		status.HandledRestore = restored
	}
	s.recordCommands(run)
	s.addHistory(run, result, outcome)
	previousPlan := status.Plan.DeepCopy()
	if result.Plan != nil {
		status.Plan = planStatus(run, result)
	} else if result.Operation.AppliesPlan() && status.Plan != nil {
		status.Plan.Waiting = new(outcome != terraform.OutcomeSucceeded)
		status.Plan.Blocked = shownAddresses(result.Blocked)
		recordViolations(status.Plan, run, result)
	}
	if _, ok := parseOneShotInputs(run.inputs()); ok {
		s.recordOneShot(run, result, outcome)
		return
	}
	switch outcome {
	case terraform.OutcomeSucceeded, terraform.OutcomeNoChanges:
		if result.Operation == terraform.OperationStateCommand && changesNothing(result.Operation, run.inputs()) {
			return
		}
		s.recordSuccess(run, result)
	case terraform.OutcomePlanned, terraform.OutcomeDenied:
		status.Failure = nil
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

// addHistory adds a run to the history.
func (s *status) addHistory(run *runRecord, result *terraform.Result, outcome terraform.Outcome) {
	history := slices.Insert(s.apply.Status.History, 0, infrav1.RunRecord{
		ID: run.id, Operation: infrav1.RunOperation(result.Operation), Outcome: infrav1.RunOutcome(outcome),
		StartedAt: metav1.NewTime(result.StartedAt), Duration: metav1.Duration{Duration: duration(result)},
		Summary: message.Truncate(summary(result), maxSummary), Request: run.request(),
	})
	s.apply.Status.History = history[:min(historyLimit(s.apply), len(history))]
}

// outcome returns the outcome of a run of the workspace.
func (s *workspace) outcome(run *runRecord, result *terraform.Result) terraform.Outcome {
	return outcomeOf(result, s.apply.Annotations[infrav1.CancelRunAnnotation] == run.id)
}

// outcomeOf returns the outcome of a run. A run that was stopped is canceled if
// the user asked for it.
func outcomeOf(result *terraform.Result, cancelRequested bool) terraform.Outcome {
	if cancelRequested && slices.Contains([]terraform.Outcome{terraform.OutcomeInterrupted, outcomeLost}, result.Outcome) {
		return outcomeCanceled
	}
	return result.Outcome
}

// sameBlock reports whether protection blocked a plan for the same resources as
// the previous plan.
func sameBlock(previous, current *infrav1.PlanStatus) bool {
	return previous != nil && current != nil && previous.Inputs == current.Inputs &&
		len(current.Blocked) > 0 && slices.Equal(previous.Blocked, current.Blocked)
}

func (s *status) recordSuccess(run *runRecord, result *terraform.Result) {
	status := &s.apply.Status
	status.Failure = nil
	switch result.Operation {
	case terraform.OperationCheckDrift:
		status.Drift = &infrav1.DriftStatus{
			CheckedAt: metav1.NewTime(result.FinishedAt), Resources: resourceChanges(result.Drift),
			Request: run.secret.Annotations[record.DriftAnnotation],
		}
	case terraform.OperationRestoreState:
		// The desired inputs have to be planned again for the restored state.
		status.HandledRestore = strings.TrimPrefix(run.inputs(), restorePrefix)
		status.AppliedInputs, status.Plan = "", nil
	case terraform.OperationStateCommand:
		status.AppliedInputs, status.Plan = "", nil
	case terraform.OperationMoveState:
		status.HandledMove = strings.TrimPrefix(run.inputs(), movePrefix)
		status.AppliedInputs, status.Plan = "", nil
	case terraform.OperationSaveState:
	case terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy:
		status.AppliedInputs, status.Outputs = "", nil
	default:
		status.AppliedInputs, status.AppliedAt = run.inputs(), metav1.NewTime(result.FinishedAt)
		s.endDrift()
	}
}

// restorePrefix precedes the name of the snapshot in the inputs of a run that
// restores it.
const restorePrefix = "restore "

// restoreInputs replaces the hash of the inputs in a run that restores a
// snapshot.
func restoreInputs(snapshot string) string { return restorePrefix + snapshot }

// jitter returns the position of a workspace in an interval, between -1 and 1.
func jitter(apply *infrav1.WorkspaceTemplateApply) float64 {
	h := fnv.New32a()
	h.Write([]byte(apply.Namespace + "/" + apply.Name))
	return 2*float64(h.Sum32())/math.MaxUint32 - 1
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

// duration returns how long a run took.
func duration(result *terraform.Result) time.Duration {
	return result.FinishedAt.Sub(result.StartedAt).Round(time.Millisecond)
}

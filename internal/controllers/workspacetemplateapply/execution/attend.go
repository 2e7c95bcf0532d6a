// Package execution starts the runs of workspaces, attends them and records their end if
// their runner cannot.
package execution

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/kubernetes/flux"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
)

// observeInterval is how often a run is observed, in case its runner ends
// without a watch event.
const observeInterval = time.Minute

// Reconciler starts and attends runs.
type Reconciler struct {
	*runs.Numbers
	Queue     *queue.Queue
	Artifacts *flux.Fetcher
	// Default is the executor of workspaces whose provider config has none.
	Default infrav1.Executor
	// StartTimeout is how long the pod of a run may take to start, or 0 for the default.
	StartTimeout time.Duration
	Now          func() time.Time
}

// Attend observes a run that has not ended. It starts, stops or records the end
// of the run if required.
func (r *Reconciler) Attend(ctx context.Context, s *Scope, run *runs.Run) error {
	r.Queue.Hold(s.Slot(), s.Group())
	r.SetActive(s.Workspace, run.Number)
	runner, err := r.Runner(s.Workspace, run.Executor())
	if err != nil && !record.Claimed(run.Secret) {
		return r.Withdraw(ctx, run, "Its executor is not enabled in this manager")
	}
	if err != nil {
		return err
	}
	liveness, err := runner.Observe(ctx, run.Ref())
	if err != nil {
		return fmt.Errorf("observing run %s: %w", run.ID, err)
	}
	s.RecordLineage(run)
	obsolete := ""
	if liveness == terraform.LivenessPending {
		obsolete = s.Obsolete(run)
	}
	switch ActionFor(s.Workspace, run, liveness, obsolete != "") {
	case ActionStart:
		err := runner.Start(ctx, run.Ref())
		if errors.Is(err, record.ErrForged) {
			return r.Withdraw(ctx, run, "Its request was changed")
		}
		if apierrors.IsForbidden(err) || err != nil && run.Age(r.Now()) > r.startTimeout() {
			// A quota, a policy, or an object of that name that a user has created. Others
			// need the slot meanwhile.
			return r.failStart(ctx, run, message.Truncate(message.OneLine(err.Error()), history.MaxSummary))
		}
		if err != nil {
			return fmt.Errorf("starting run %s: %w", run.ID, err)
		}
	case ActionRecordLoss:
		return r.RecordLoss(ctx, run)
	case actionDiscard:
		return r.discard(ctx, run)
	case ActionWithdraw:
		return r.Withdraw(ctx, run, obsolete)
	case ActionWaitForProof:
		return fault.Wait(infrav1.LockHeldReason, "Run %s started on another machine and there is no proof that it ended. If you know that it ended, run captctl unlock with %s",
			run.ID, run.ID)
	case ActionStop:
		return r.stop(ctx, s, runner, run)
	}
	progress, err := record.Progress(run.Secret)
	if err != nil {
		return err
	}
	s.SetRunStatus(run, progress)
	explanation, err := r.Runners.Explain(ctx, run)
	if err != nil {
		return err
	}
	if liveness == terraform.LivenessRunning && r.IsStuck(run, explanation) {
		return r.failStart(ctx, run, explanation)
	}
	text := strings.TrimSuffix(ProgressMessage(run, progress)+". "+explanation, ". ")
	return fault.WaitFor(ObserveAgain(run), infrav1.RunInProgressReason, "%s", text)
}

// stop stops a run. Resources that are retained outlive their workspace, and nothing would tell
// the next one which of them an interrupt has left tainted: so an apply is completed.
func (r *Reconciler) stop(ctx context.Context, s *Scope, runner terraform.Runner, run *runs.Run) error {
	interrupt := s.IsCanceled(run.ID) || !s.Apply.Spec.RetainWorkspaceOnDelete
	if err := runner.Stop(ctx, run.Ref(), interrupt); err != nil {
		return fmt.Errorf("stopping run %s: %w", run.ID, err)
	}
	more := ""
	if !interrupt {
		more = ". An apply in progress is completed first, because the resources are retained: to interrupt it, cancel the run"
	}
	return fault.Wait(infrav1.RunInProgressReason, "Run %s is stopping%s", run.ID, more)
}

// Action is what the controller does with a run that has not ended.
type Action int

// What to do with a run.
const (
	ActionObserve Action = iota
	ActionStart
	ActionStop
	ActionRecordLoss
	actionDiscard
	ActionWithdraw
	ActionWaitForProof
)

// ActionFor returns what to do with a run that has not ended. A run is stopped if
// the user cancels it or deletes the workspace, unless it is a run of the deletion. One
// that is obsolete is not started. A run without proof of its end is lost only if the
// user says so.
func ActionFor(s *runs.Workspace, run *runs.Run, liveness terraform.Liveness, obsolete bool) Action {
	switch liveness {
	case terraform.LivenessPending:
		switch {
		case run.Number < s.Apply.Status.Runs:
			// A manager was suspended before it created the run, and another one has
			// started a later run meanwhile.
			return actionDiscard
		case obsolete:
			return ActionWithdraw
		}
		return ActionStart
	case terraform.LivenessGone:
		return ActionRecordLoss
	case terraform.LivenessUnknown:
		if s.IsUnlocked(run.ID) {
			return ActionRecordLoss
		}
		return ActionWaitForProof
	case terraform.LivenessRunning:
		if s.IsCanceled(run.ID) || !s.Apply.DeletionTimestamp.IsZero() && !belongsToDeletion(run.Operation()) {
			return ActionStop
		}
	}
	return ActionObserve
}

// Obsolete returns why a run that has not started must not start any more, or an empty
// string. The manager may have ended, or the API server may have refused the Job, long
// ago: a run starts only if the workspace would start the same run now.
func (s *Scope) Obsolete(run *runs.Run) string {
	switch deleting := !s.Apply.DeletionTimestamp.IsZero(); {
	case s.IsCanceled(run.ID):
		return "It was canceled"
	case deleting && !belongsToDeletion(run.Operation()):
		return "The workspace is being deleted"
	case run.Origin == runs.OriginKnown:
		return "It has no seal of this manager"
	case deleting:
		return s.ObsoleteInDeletion(run)
	case run.Operation() == terraform.OperationMoveState:
		if move := s.RequestedMove(); move == nil || runs.MoveInputs(move.ID) != run.Inputs() {
			return "The request to move the state was withdrawn"
		}
		return ""
	case s.Inputs == nil:
		return "Its inputs cannot be resolved any more"
	}
	next, err := decision.Next(s.Situation())
	if err != nil || next.Operation != run.Operation() || s.InputsOf(next) != run.Inputs() {
		return "The workspace has changed"
	}
	request, err := s.Request(next)
	if err != nil || run.Secret.Annotations[record.SettingsAnnotation] != settingsOf(request) {
		return "Its settings have changed"
	}
	return ""
}

// ObsoleteInDeletion returns why a run of a deletion must not start any more, or an empty
// string.
func (s *Scope) ObsoleteInDeletion(run *runs.Run) string {
	retain := s.Apply.Spec.RetainWorkspaceOnDelete
	switch {
	case run.Operation().Destroys() && retain:
		return "The resources are retained"
	case run.Operation().Destroys() && run.Policies() != s.Policies.Digest() && !s.frees(run):
		return "The policies have changed"
	case run.Operation() == terraform.OperationDestroy && s.Policy.DestroyApproval == infrav1.ApprovalManual && !s.frees(run):
		return "The deletion waits for an approved plan"
	case run.Operation() == terraform.OperationApplyDestroy && !s.destroyApproved():
		return "The plan is not approved any more"
	case run.Operation() == terraform.OperationSaveState && !retain:
		return "The resources are not retained"
	case run.Operation() == terraform.OperationRestoreState && run.Inputs() != runs.RestoreInputs(s.restoreID()):
		return "The request to restore the snapshot was withdrawn"
	default:
		return ""
	}
}

// frees reports whether a run only marks an empty state as free. There is nothing to
// approve, and nothing about which a policy decides.
func (s *Scope) frees(run *runs.Run) bool {
	return run.Operation() == terraform.OperationDestroy && s.WasEmpty(run)
}

// settingsOf returns a hash of what a run does with its inputs: which plan it applies,
// what it must not destroy, which lock it breaks, where it runs and which policies decide.
func settingsOf(request *terraform.Request) string {
	plan := ""
	if request.Plan != nil {
		plan = request.Plan.ID
	}
	settings := []any{plan, request.Protect, request.Unprotected, request.BreakLock, request.State.Adopt, request.Pod}
	if digest := request.Policies.Digest(); digest != "" {
		settings = append(settings, digest)
	}
	sum := sha256.Sum256(runs.MustJSON(settings))
	return hex.EncodeToString(sum[:8])
}

// belongsToDeletion reports whether a run is a part of the deletion of a workspace.
func belongsToDeletion(operation terraform.Operation) bool {
	switch operation {
	case terraform.OperationDestroy, terraform.OperationPlanDestroy, terraform.OperationApplyDestroy, terraform.OperationSaveState, terraform.OperationMoveState, terraform.OperationRestoreState, terraform.OperationStateCommand:
		return true
	default:
		return false
	}
}

// ObserveAgain returns the delay before a run is observed again.
func ObserveAgain(run *runs.Run) time.Duration {
	if record.Claimed(run.Secret) {
		return observeInterval
	}
	return runs.StartInterval
}

// discard deletes a run that no runner has claimed. It is not recorded: it is older than the
// last run, whose result must stay the last one.
func (r *Reconciler) discard(ctx context.Context, run *runs.Run) error {
	secret := run.Secret
	err := r.Client.Delete(ctx, secret, runs.Unchanged(secret))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("discarding run %s: %w", run.ID, err)
	}
	return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s is discarded, because a later one was started", run.ID)
}

// Withdraw ends a run that no runner has claimed, and that must not start any more.
func (r *Reconciler) Withdraw(ctx context.Context, run *runs.Run, why string) error {
	err := r.endUnclaimed(ctx, run, func(result *terraform.Result) {
		result.Withdrawn = true
		result.Diagnostics[0].Summary, result.Diagnostics[0].Detail = "The run was withdrawn before it started", why+"."
	})
	if err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RunInterruptedReason, "Run %s is withdrawn before its start. %s", run.ID, why)
}

// endUnclaimed records the end of a run that no runner has claimed, with a result that change
// completes.
func (r *Reconciler) endUnclaimed(ctx context.Context, run *runs.Run, change func(*terraform.Result)) error {
	live, err := r.LiveRun(ctx, run)
	if err != nil {
		return err
	}
	if record.Claimed(live) || record.Finished(live) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just started", run.ID)
	}
	result := runs.Lost(run, live.CreationTimestamp.Time, r.Now(), "")
	result.Unclaimed = true
	change(result)
	return r.finish(ctx, run, live, result)
}

// RecordLoss records the end of a run whose runner ended without a result.
func (r *Reconciler) RecordLoss(ctx context.Context, run *runs.Run) error {
	live, err := r.LiveRun(ctx, run)
	if err != nil {
		return err
	}
	if record.Finished(live) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just ended", run.ID)
	}
	explanation, err := r.Runners.Explain(ctx, run)
	if err != nil {
		return err
	}
	result := runs.Lost(run, live.CreationTimestamp.Time, r.Now(), explanation)
	result.Saved = record.Saved(live)
	result.Unclaimed = !record.Claimed(live)
	if err := r.finish(ctx, run, live, result); err != nil {
		return err
	}
	return fault.Wait(infrav1.RunInterruptedReason, "Run %s ended without a result; the next run continues from the state", run.ID)
}

// finish records the result of a run, unless its Secret has changed since it was read.
func (r *Reconciler) finish(ctx context.Context, run *runs.Run, live *corev1.Secret, result *terraform.Result) error {
	if err := record.SetResult(live, result); err != nil {
		return err
	}
	if err := r.Client.Update(ctx, live); err != nil {
		return fmt.Errorf("recording the end of run %s: %w", run.ID, err)
	}
	return nil
}

// ProgressMessage describes how far a run is.
func ProgressMessage(run *runs.Run, p *terraform.Progress) string {
	if p == nil {
		return fmt.Sprintf("Run %s (%s) is running", run.ID, run.Operation())
	}
	text := fmt.Sprintf("Run %s is %s", run.ID, strings.ToLower(string(p.Phase)))
	if p.Total > 0 {
		text += fmt.Sprintf(": %d of %d resources", p.Done, p.Total)
	}
	if len(p.Current) > 0 {
		text += fmt.Sprintf(", now %s since %s", p.Current[0].Address, p.Current[0].Since.UTC().Format(time.RFC3339))
	}
	if !p.InterruptAt.IsZero() {
		text += fmt.Sprintf(". It exceeds its timeout, and is interrupted at %s", p.InterruptAt.UTC().Format(time.RFC3339))
	}
	return text
}

package workspacetemplateapply

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
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

// startInterval is how often a run is observed that has not started. There is
// no watch for what prevents a pod from starting.
const startInterval = 10 * time.Second

// maxCurrent is the number of resources in the progress of the status.
const maxCurrent = 10

// maxWord is the size of a phase and of an action in the status, in bytes.
const maxWord = 32

// execution starts and attends runs.
type execution struct {
	*numbers
	queue     *queue.Queue
	Artifacts *flux.Fetcher
	// Default is the executor of workspaces whose provider config has none.
	Default infrav1.Executor
	// StartTimeout is how long the pod of a run may take to start, or 0 for the default.
	StartTimeout time.Duration
	Now          func() time.Time
}

// attend observes a run that has not ended. It starts, stops or records the end
// of the run if required.
func (r *execution) attend(ctx context.Context, s *scope, run *runRecord) error {
	r.queue.Hold(s.slot(), s.group())
	r.setActive(s.workspace, run.number)
	runner, err := r.runner(s.workspace, run.executor())
	if err != nil && !record.Claimed(run.secret) {
		return r.withdraw(ctx, run, "Its executor is not enabled in this manager")
	}
	if err != nil {
		return err
	}
	liveness, err := runner.Observe(ctx, run.ref())
	if err != nil {
		return fmt.Errorf("observing run %s: %w", run.id, err)
	}
	s.recordLineage(run)
	obsolete := ""
	if liveness == terraform.LivenessPending {
		obsolete = s.obsolete(run)
	}
	switch actionFor(s.apply, run, liveness, obsolete != "") {
	case actionStart:
		err := runner.Start(ctx, run.ref())
		if errors.Is(err, record.ErrForged) {
			return r.withdraw(ctx, run, "Its request was changed")
		}
		if apierrors.IsForbidden(err) || err != nil && run.age(r.Now()) > r.startTimeout() {
			// A quota, a policy, or an object of that name that a user has created. Others
			// need the slot meanwhile.
			return r.failStart(ctx, run, message.Truncate(message.OneLine(err.Error()), maxSummary))
		}
		if err != nil {
			return fmt.Errorf("starting run %s: %w", run.id, err)
		}
	case actionRecordLoss:
		return r.recordLoss(ctx, run)
	case actionDiscard:
		return r.discard(ctx, run)
	case actionWithdraw:
		return r.withdraw(ctx, run, obsolete)
	case actionWaitForProof:
		return fault.Wait(infrav1.LockHeldReason, "Run %s started on another machine and there is no proof that it ended. If you know that it ended, set the annotation %s to %s",
			run.id, infrav1.ForceUnlockAnnotation, run.id)
	case actionStop:
		if err := runner.Stop(ctx, run.ref()); err != nil {
			return fmt.Errorf("stopping run %s: %w", run.id, err)
		}
		return fault.Wait(infrav1.RunInProgressReason, "Run %s is stopping", run.id)
	}
	progress, err := record.Progress(run.secret)
	if err != nil {
		return err
	}
	s.setRunStatus(run, progress)
	explanation, err := r.Runners.explain(ctx, run)
	if err != nil {
		return err
	}
	if liveness == terraform.LivenessRunning && r.isStuck(run, explanation) {
		return r.failStart(ctx, run, explanation)
	}
	text := strings.TrimSuffix(progressMessage(run, progress)+". "+explanation, ". ")
	return fault.WaitFor(observeAgain(run), infrav1.RunInProgressReason, "%s", text)
}

// action is what the controller does with a run that has not ended.
type action int

const (
	actionObserve action = iota
	actionStart
	actionStop
	actionRecordLoss
	actionDiscard
	actionWithdraw
	actionWaitForProof
)

// actionFor returns what to do with a run that has not ended. A run is stopped if
// the user cancels it or deletes the workspace, unless it is a run of the deletion. One
// that is obsolete is not started. A run without proof of its end is lost only if the
// user says so.
func actionFor(apply *infrav1.WorkspaceTemplateApply, run *runRecord, liveness terraform.Liveness, obsolete bool) action {
	switch liveness {
	case terraform.LivenessPending:
		switch {
		case run.number < apply.Status.Runs:
			// A manager was suspended before it created the run, and another one has
			// started a later run meanwhile.
			return actionDiscard
		case obsolete:
			return actionWithdraw
		}
		return actionStart
	case terraform.LivenessGone:
		return actionRecordLoss
	case terraform.LivenessUnknown:
		if apply.Annotations[infrav1.ForceUnlockAnnotation] == run.id {
			return actionRecordLoss
		}
		return actionWaitForProof
	case terraform.LivenessRunning:
		if apply.Annotations[infrav1.CancelRunAnnotation] == run.id || !apply.DeletionTimestamp.IsZero() && !belongsToDeletion(run.operation()) {
			return actionStop
		}
	}
	return actionObserve
}

// obsolete returns why a run that has not started must not start any more, or an empty
// string. The manager may have ended, or the API server may have refused the Job, long
// ago: a run starts only if the workspace would start the same run now.
func (s *scope) obsolete(run *runRecord) string {
	switch deleting := !s.apply.DeletionTimestamp.IsZero(); {
	case s.apply.Annotations[infrav1.CancelRunAnnotation] == run.id:
		return "It was canceled"
	case deleting && !belongsToDeletion(run.operation()):
		return "The workspace is being deleted"
	case run.origin == originKnown:
		return "It has no seal of this manager"
	case deleting:
		return s.obsoleteInDeletion(run)
	case run.operation() == terraform.OperationMoveState:
		if move := s.requestedMove(); move == nil || moveInputs(move.ID) != run.inputs() {
			return "The state shall not move any more"
		}
		return ""
	case s.inputs == nil:
		return "Its inputs cannot be resolved any more"
	}
	next, err := decide(s.situation())
	if err != nil || next.operation != run.operation() || s.inputsOf(next) != run.inputs() {
		return "The workspace has changed"
	}
	request, err := s.request(next)
	if err != nil || run.secret.Annotations[record.SettingsAnnotation] != settingsOf(request) {
		return "Its settings have changed"
	}
	return ""
}

// obsoleteInDeletion returns why a run of a deletion must not start any more, or an empty
// string.
func (s *scope) obsoleteInDeletion(run *runRecord) string {
	retain := s.apply.Spec.RetainWorkspaceOnDelete
	switch {
	case run.operation().Destroys() && retain:
		return "The resources are retained"
	case run.operation().Destroys() && run.policies() != s.policies.Digest() && !s.frees(run):
		return "The policies have changed"
	case run.operation() == terraform.OperationDestroy && s.policy.DestroyApproval == infrav1.ApprovalManual && !s.frees(run):
		return "The deletion waits for an approved plan"
	case run.operation() == terraform.OperationApplyDestroy && !s.destroyApproved():
		return "The plan is not approved any more"
	case run.operation() == terraform.OperationSaveState && !retain:
		return "The resources are not retained"
	case run.operation() == terraform.OperationRestoreState && run.inputs() != restoreInputs(record.Shorten(s.restore(), maxSnapshot)):
		return "The snapshot shall not be restored any more"
	default:
		return ""
	}
}

// frees reports whether a run only marks an empty state as free. There is nothing to
// approve, and nothing about which a policy decides.
func (s *scope) frees(run *runRecord) bool {
	return run.operation() == terraform.OperationDestroy && s.wasEmpty(run)
}

// settingsOf returns a hash of what a run does with its inputs: which plan it applies,
// what it must not destroy, which lock it breaks, where it runs, which policies decide and
// what a one-shot operation changes.
func settingsOf(request *terraform.Request) string {
	plan := ""
	if request.Plan != nil {
		plan = request.Plan.ID
	}
	settings := []any{plan, request.Protect, request.Unprotected, request.BreakLock, request.State.Adopt, request.Pod}
	if digest := request.Policies.Digest(); digest != "" {
		settings = append(settings, digest)
	}
	if request.OneShot != nil {
		settings = append(settings, request.OneShot)
	}
	sum := sha256.Sum256(mustJSON(settings))
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

// observeAgain returns the delay before a run is observed again.
func observeAgain(run *runRecord) time.Duration {
	if record.Claimed(run.secret) {
		return observeInterval
	}
	return startInterval
}

// discard deletes a run that no runner has claimed. It is not recorded: it is older than the
// last run, whose result must stay the last one.
func (r *execution) discard(ctx context.Context, run *runRecord) error {
	secret := run.secret
	err := r.Client.Delete(ctx, secret, unchanged(secret))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("discarding run %s: %w", run.id, err)
	}
	return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s is discarded, because a later one was started", run.id)
}

// withdraw ends a run that no runner has claimed, and that must not start any more.
func (r *execution) withdraw(ctx context.Context, run *runRecord, why string) error {
	live, err := r.liveRun(ctx, run)
	if err != nil {
		return err
	}
	if record.Claimed(live) || record.Finished(live) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just started", run.id)
	}
	result := lostResult(run, live.CreationTimestamp.Time, r.Now(), "")
	result.Unclaimed, result.Withdrawn = true, true
	result.Diagnostics[0].Summary, result.Diagnostics[0].Detail = "The run was withdrawn before it started", why+"."
	if err := r.finish(ctx, run, live, result); err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RunInterruptedReason, "Run %s is withdrawn before its start. %s", run.id, why)
}

// recordLoss records the end of a run whose runner ended without a result.
func (r *execution) recordLoss(ctx context.Context, run *runRecord) error {
	live, err := r.liveRun(ctx, run)
	if err != nil {
		return err
	}
	if record.Finished(live) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just ended", run.id)
	}
	explanation, err := r.Runners.explain(ctx, run)
	if err != nil {
		return err
	}
	result := lostResult(run, live.CreationTimestamp.Time, r.Now(), explanation)
	result.Saved = record.Saved(live)
	result.Unclaimed = !record.Claimed(live)
	if err := r.finish(ctx, run, live, result); err != nil {
		return err
	}
	return fault.Wait(infrav1.RunInterruptedReason, "Run %s ended without a result; the next run continues from the state", run.id)
}

// liveRun reads the Secret of a run from the API server. It returns a conflict for that of
// the next workspace of the name, whose runs have the same IDs: this manager was suspended
// then.
func (r *store) liveRun(ctx context.Context, run *runRecord) (*corev1.Secret, error) {
	var live corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.secret), &live); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", run.id, err)
	}
	if live.UID != run.secret.UID {
		return nil, fmt.Errorf("reading run %s: %w", run.id, apierrors.NewConflict(corev1.Resource("secrets"), live.Name, errors.New("it is the run of another workspace")))
	}
	return &live, nil
}

// finish records the result of a run, unless its Secret has changed since it was read.
func (r *execution) finish(ctx context.Context, run *runRecord, live *corev1.Secret, result *terraform.Result) error {
	if err := record.SetResult(live, result); err != nil {
		return err
	}
	if err := r.Client.Update(ctx, live); err != nil {
		return fmt.Errorf("recording the end of run %s: %w", run.id, err)
	}
	return nil
}

// lostResult returns the result of a run that left none.
func lostResult(run *runRecord, started, ended time.Time, explanation string) *terraform.Result {
	return &terraform.Result{
		RunID: run.id, Operation: run.operation(), Outcome: outcomeLost, Class: terraform.ClassTransient,
		StartedAt: started, FinishedAt: ended,
		Diagnostics: terraform.Diagnostics{{
			Severity: terraform.SeverityError, Summary: "The runner ended without a result",
			Detail: strings.TrimSpace("The next run continues from the state. " + explanation),
		}},
	}
}

// setRunStatus writes a run that has not ended into the status. The progress may
// be nil.
func (s *status) setRunStatus(run *runRecord, progress *terraform.Progress) {
	started := run.secret.CreationTimestamp
	if started.IsZero() {
		started = metav1.NewTime(s.now)
	}
	s.apply.Status.Run = &infrav1.RunStatus{
		ID: run.id, Operation: infrav1.RunOperation(run.operation()), Inputs: run.inputs(), StartedAt: started, Request: run.request(),
	}
	if progress == nil {
		return
	}
	s.apply.Status.Run.Progress = shownProgress(progress)
}

// shownProgress returns a progress as the status shows it. The run wrote it: what the schema
// of the status does not allow would prevent every write of the status.
func shownProgress(progress *terraform.Progress) *infrav1.RunProgress {
	shown := &infrav1.RunProgress{Phase: message.Truncate(string(progress.Phase), maxWord), Done: count(progress.Done), Total: count(progress.Total)}
	for _, c := range firstOf(progress.Current, maxCurrent) {
		if c.Address != "" {
			shown.Current = append(shown.Current, infrav1.CurrentResource{
				Address: message.Truncate(c.Address, maxAddress), Action: message.Truncate(string(c.Action), maxWord), Since: metav1.NewTime(c.Since),
			})
		}
	}
	return shown
}

func progressMessage(run *runRecord, p *terraform.Progress) string {
	if p == nil {
		return fmt.Sprintf("Run %s (%s) is running", run.id, run.operation())
	}
	text := fmt.Sprintf("Run %s is %s", run.id, strings.ToLower(string(p.Phase)))
	if p.Total > 0 {
		text += fmt.Sprintf(": %d of %d resources", p.Done, p.Total)
	}
	if len(p.Current) > 0 {
		text += fmt.Sprintf(", now %s since %s", p.Current[0].Address, p.Current[0].Since.UTC().Format(time.RFC3339))
	}
	return text
}

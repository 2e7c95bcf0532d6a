package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// run applies the desired inputs.
func (r *Reconciler) run(ctx context.Context, s *scope) error {
	if run := s.current(); run != nil {
		return s.unlessApplied(run.operation(), run.inputs(), r.execution.attend(ctx, s, run))
	}
	if err := r.resolver.resolveMove(ctx, s.resolved); err != nil {
		return err
	}
	r.endOneShot(s)
	next, err := decide(s.situation())
	if err != nil || next == noRun {
		return err
	}
	return s.unlessApplied(next.operation, s.inputsOf(next), r.execution.start(ctx, s, next))
}

// attendingRun wraps a step that may end the list before the step run. A run that has
// not ended is attended nevertheless.
func (r *Reconciler) attendingRun(step func(context.Context, *scope) error) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		err := step(ctx, s)
		if err == nil {
			return nil
		}
		run := s.current()
		if run == nil || !record.Claimed(run.secret) && !fault.Is(err) {
			return err
		}
		return joinFailure(err, r.execution.attend(ctx, s, run))
	}
}

// joinFailure adds the error of a run to that of a step, unless the run only
// waits.
func joinFailure(stepErr, runErr error) error {
	if _, waiting := fault.AsWaiting(runErr); waiting {
		return stepErr
	}
	return errors.Join(stepErr, runErr)
}

// unlessApplied returns the error of a run, except the wait for a run of an applied
// workspace that changes nothing: the workspace stays applied meanwhile.
func (s *scope) unlessApplied(operation terraform.Operation, inputs string, err error) error {
	_, waiting := fault.AsWaiting(err)
	if waiting && changesNothing(operation, inputs) && s.inputs.Hash == s.apply.Status.AppliedInputs {
		return nil
	}
	return err
}

// start starts a run. The request is stored before a runner acts on it. Its name
// has the number of the run, so that a second attempt fails.
func (r *execution) start(ctx context.Context, s *scope, next decision) error {
	if err := r.mayStart(ctx, s, next); err != nil {
		return err
	}
	executor := r.executor(s)
	runner, err := r.runner(s.workspace, executor)
	if err != nil {
		return err
	}
	admitted, position := r.queue.Acquire(s.slot(), s.groupOf(next))
	s.keepsSlot = true
	if !admitted {
		return fault.Wait(infrav1.QueuedReason, "Waiting for a free slot since %s", position.Since.UTC().Format(time.RFC3339))
	}
	// Only a workspace with a slot reads from the API server.
	s.unused = r.unusedNumber(s.workspace)
	// If the next run exists, its number is taken, or its creation fails.
	if err := r.ensureRunCurrent(ctx, s.workspace, s.nextNumber()-1); err != nil {
		return err
	}
	observeQueued(position, s.now)
	if s.rescued, err = r.rescuedStates(ctx, s.workspace); err != nil {
		s.keepsSlot = false
		return err
	}
	number := s.nextNumber()
	request, err := r.request(ctx, s, next)
	if err != nil {
		s.keepsSlot = false
		return err
	}
	if err := r.storeArtifact(ctx, s.artifact, request); err != nil {
		s.keepsSlot = false
		return err
	}
	secret, err := record.NewRun(request, s.runMeta(request, executor))
	if err == nil {
		s.seal(secret)
		if err := r.takeNumber(ctx, s.workspace, number); err != nil {
			return err
		}
		if err := r.ensureAlone(ctx, s.workspace, number); err != nil {
			return err
		}
		err = r.Client.Create(ctx, secret)
	}
	if err != nil {
		s.keepsSlot = false
		r.rememberUnused(s.workspace, number, err)
		if apierrors.IsAlreadyExists(err) {
			return r.skipNumbers(ctx, s.workspace, number)
		}
		return storeFault(err)
	}
	r.unused.Delete(s.apply.UID)
	r.setActive(s.workspace, number)
	if err := r.ensureLast(ctx, s.workspace, number, secret); err != nil {
		return err
	}
	run := &runRecord{id: request.RunID, workspace: s.apply.Name, workspaceUID: s.apply.UID, number: number, secret: secret, origin: originSealed}
	s.startState(request)
	ctrl.LoggerFrom(ctx).Info("Starting run", "run", run.id, "operation", next.operation)
	return launch(ctx, s, runner, run, request)
}

// launch starts the runner of a stored run.
func launch(ctx context.Context, s *scope, runner terraform.Runner, run *runRecord, request *terraform.Request) error {
	ref := run.ref()
	ref.Request = request
	if err := runner.Start(ctx, ref); err != nil {
		return fmt.Errorf("starting run %s: %w", run.id, err)
	}
	s.setRunStatus(run, nil)
	return fault.Wait(infrav1.RunInProgressReason, "%s", progressMessage(run, nil))
}

// releaseSlot frees the slot of a workspace that has no run and waits for none, however
// its reconcile ended. Otherwise workspaces that are paused, or that cannot run any more,
// would keep the slots that they waited for.
func (r *Reconciler) releaseSlot(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, s *scope) {
	if s == nil {
		s = scopeOf(&workspace{apply: apply})
		if err := r.store.readRuns(ctx, s.workspace); err != nil || s.missesRun() {
			return
		}
	}
	if !s.keepsSlot && s.current() == nil && !r.numbers.lacksActive(ctx, s.workspace) {
		r.queue.Release(s.slot())
	}
}

// missesRun reports whether the cache does not have the run of the status yet.
func (s *workspace) missesRun() bool {
	run := s.apply.Status.Run
	return run != nil && !slices.ContainsFunc(s.runs, func(r *runRecord) bool { return r.id == run.ID })
}

// seal marks the Secret of a run as created by this manager.
func (s *workspace) seal(secret *corev1.Secret) {
	secret.Annotations[record.SealAnnotation] = s.key.Sign(record.SealPurpose, record.SealedContent(secret))
}

// sealEnded seals the runs that have ended and have no seal of this manager, before
// anything is recorded: the status, by which they are known now, will forget them. It
// returns a conflict until the cache has the seals.
func (r *recorder) sealEnded(ctx context.Context, s *status) error {
	sealed := false
	for _, run := range s.runs {
		if run.origin == originSealed || !record.Finished(run.secret) {
			continue
		}
		changed := run.secret.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		// The run may have written it, to have tokens signed with other credentials.
		delete(changed.Annotations, record.ObjectsAnnotation)
		changed.Annotations[record.OperationAnnotation] = string(run.operation())
		if inputs := run.inputs(); inputs != "" {
			changed.Annotations[record.InputsAnnotation] = inputs
		}
		s.seal(changed)
		// The cache has only parts of the Secret, so it is patched, not updated.
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(run.secret, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("sealing run %s: %w", run.id, err)
		}
		sealed = true
	}
	if sealed {
		return s.staleCache()
	}
	return nil
}

// maxSkipped is how many numbers are skipped at most if a Secret has the name of a run.
const maxSkipped = 1 << 20

// skipNumbers handles a Secret with the name of the next run. If the manager did not
// create it, others may have the names of later runs: a number that cannot be guessed is
// next.
func (r *numbers) skipNumbers(ctx context.Context, s *workspace, number int64) error {
	r.unused.Delete(s.apply.UID)
	existing, err := r.liveNumber(ctx, s, number)
	if err != nil {
		return err
	}
	if existing == nil || runRecordOf(s.key, s.apply, existing) != nil {
		return s.staleCache()
	}
	if err := r.takeNumber(ctx, s, number+1+rand.Int64N(maxSkipped)); err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Secret %s is not a run of CAPT, so its number is skipped: delete the Secret", existing.Name)
}

// storeFault turns the error of storing a run that is too large into a fault.
func storeFault(err error) error {
	switch {
	case errors.Is(err, record.ErrRequestTooLarge), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err):
		return fault.Stall(infrav1.RunFailedReason, "Module and values exceed the size of a Secret (1 MiB): use source: Remote or smaller values")
	default:
		return fmt.Errorf("storing the run: %w", err)
	}
}

// takeNumber records the number of the next run before the run exists. A number is never
// used again: a runner may still execute a run whose record was deleted, and would report
// its result as that of the next one. The write fails if the cached workspace is not the
// current one. A run cannot be undone, so it must not start for a workspace that was
// changed or deleted.
func (r *numbers) takeNumber(ctx context.Context, s *workspace, number int64) error {
	if number == s.apply.Status.Runs {
		return r.ensureCurrent(ctx, s)
	}
	if err := r.recordAtOnce(ctx, s, fmt.Sprintf(`{"runs":%d}`, number)); err != nil {
		return fmt.Errorf("recording the number of the run: %w", err)
	}
	s.apply.Status.Runs = number
	return nil
}

// recordAtOnce writes fields of the status before the end of the reconcile. It returns a
// conflict if the cached workspace is not the current one.
func (r *store) recordAtOnce(ctx context.Context, s *workspace, fields string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":%s}`, s.apply.ResourceVersion, fields)
	written := s.apply.DeepCopy()
	err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return s.staleCache()
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	s.apply.ResourceVersion = written.ResourceVersion
	return nil
}

// ensureCurrent returns a conflict if the cached workspace is not the current one.
func (r *store) ensureCurrent(ctx context.Context, s *workspace) error {
	live, err := r.live(ctx, s)
	if err == nil && (live == nil || live.ResourceVersion != s.apply.ResourceVersion) {
		return s.staleCache()
	}
	return err
}

// live reads the workspace from the API server. It returns nil if it does not exist any
// more, or if another one has its name.
func (r *store) live(ctx context.Context, s *workspace) (*infrav1.WorkspaceTemplateApply, error) {
	var live infrav1.WorkspaceTemplateApply
	err := r.Reader.Get(ctx, s.name(), &live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the workspace: %w", err)
	case err != nil || live.UID != s.apply.UID:
		return nil, nil
	}
	return &live, nil
}

// rememberUnused remembers the number of a run that the API server refused to create. Each
// new number is a write of the status, which would start the next attempt at once.
func (r *numbers) rememberUnused(s *workspace, number int64, err error) {
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || errors.Is(err, record.ErrRequestTooLarge)
	if refused && number == s.apply.Status.Runs {
		r.unused.Store(s.apply.UID, number)
	}
}

// unusedNumber returns the last number of the workspace if no run has it, or 0.
func (r *numbers) unusedNumber(s *workspace) int64 {
	number, found := r.unused.Load(s.apply.UID)
	if !found || number.(int64) != s.apply.Status.Runs || len(s.runs) > 0 && s.runs[0].number >= number.(int64) {
		r.unused.Delete(s.apply.UID)
		return 0
	}
	return number.(int64)
}

// ensureAlone returns a conflict if a manager that does not lead any more has created the
// run before this one in the meantime. That manager starts it only if no later number is
// taken after it was created (ensureLast), so that at most one of the two runs starts.
func (r *numbers) ensureAlone(ctx context.Context, s *workspace, number int64) error {
	if number == 1 || len(s.runs) > 0 && s.runs[0].number == number-1 {
		return nil
	}
	previous, err := r.liveNumber(ctx, s, number-1)
	if err == nil && previous != nil && runRecordOf(s.key, s.apply, previous) != nil {
		return s.staleCache()
	}
	return err
}

// liveNumber reads the Secret with the name of a run from the API server. It returns nil if
// there is none.
func (r *store) liveNumber(ctx context.Context, s *workspace, number int64) (*corev1.Secret, error) {
	id := record.NewRunID(s.apply.Name, number)
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.apply.Namespace, Name: record.SecretName(id)}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return &secret, nil
}

// ensureLast deletes a new run and returns a conflict if another manager has taken a
// later number. This manager was then suspended before it created the run, and what it
// knows is outdated.
func (r *numbers) ensureLast(ctx context.Context, s *workspace, number int64, secret *corev1.Secret) error {
	live, err := r.live(ctx, s)
	if err != nil || live != nil && live.Status.Runs == number {
		return err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})); err != nil {
		return fmt.Errorf("deleting an outdated run: %w", err)
	}
	return s.staleCache()
}

// ensureRunsCurrent returns a conflict if the last run, or the next one, exists and is
// not in the cache. The status may be older than a run that has just started.
func (r *numbers) ensureRunsCurrent(ctx context.Context, s *workspace) error {
	if err := r.ensureRunCurrent(ctx, s, s.nextNumber()-1); err != nil {
		return err
	}
	return r.ensureRunCurrent(ctx, s, s.nextNumber())
}

// ensureRunCurrent returns a conflict if the run of a number exists and is not in the cache.
func (r *numbers) ensureRunCurrent(ctx context.Context, s *workspace, number int64) error {
	if number == 0 || len(s.runs) > 0 && s.runs[0].number == number {
		return nil
	}
	run, err := r.liveNumber(ctx, s, number)
	switch {
	case err != nil:
		return err
	case run == nil && number == s.apply.Status.Runs:
		// A user has deleted it, or it was never created.
		return r.endDeleted(ctx, s, record.NewRunID(s.apply.Name, number))
	case run == nil:
		return nil
	case runRecordOf(s.key, s.apply, run) != nil:
		return s.staleCache()
	case number == s.apply.Status.Runs && !record.Finished(run):
		return r.stopChanged(ctx, s, record.NewRunID(s.apply.Name, number))
	}
	return nil
}

// endDeleted stops the last run, whose Secret was deleted. No other run starts while it is
// running: a backend whose state the tool locks is free between two commands.
func (r *numbers) endDeleted(ctx context.Context, s *workspace, id string) error {
	if s.apply.Annotations[infrav1.ForceUnlockAnnotation] == id {
		return nil
	}
	for _, runner := range r.Runners {
		ender, ok := runner.(terraform.Ender)
		if !ok {
			continue
		}
		ended, err := ender.End(ctx, s.runRef(id))
		if err != nil {
			return fmt.Errorf("stopping run %s: %w", id, err)
		}
		if !ended {
			return fault.WaitFor(startInterval, infrav1.RunInProgressReason, "The Secret of run %s was deleted. The run is stopping. If its node is gone for good, continue with captctl unlock", id)
		}
	}
	return nil
}

// stopChanged stops the last run, whose Secret does not count any more: the run itself or
// a user has changed it. No other run starts while it is running.
func (r *numbers) stopChanged(ctx context.Context, s *workspace, id string) error {
	ref := s.runRef(id)
	for _, runner := range r.Runners {
		liveness, err := runner.Observe(ctx, ref)
		if err != nil {
			return fmt.Errorf("observing run %s: %w", id, err)
		}
		if liveness != terraform.LivenessRunning {
			continue
		}
		if err := runner.Stop(ctx, ref); err != nil {
			return fmt.Errorf("stopping run %s: %w", id, err)
		}
		return fault.WaitFor(startInterval, infrav1.RunInProgressReason, "The Secret of run %s was changed, so its result does not count. The run is stopping", id)
	}
	return nil
}

// runRef identifies a run without a record.
func (s *workspace) runRef(id string) terraform.Run {
	return terraform.Run{Namespace: s.apply.Namespace, Workspace: s.apply.Name, WorkspaceUID: string(s.apply.UID), ID: id}
}

func (s *workspace) staleCache() error {
	return apierrors.NewConflict(infrav1.GroupVersion.WithResource("workspacetemplateapplies").GroupResource(), s.apply.Name, errors.New("the cache is stale"))
}

func appliedMessage(apply *infrav1.WorkspaceTemplateApply) string {
	var texts []string
	if state := apply.Status.State; state != nil {
		texts = append(texts, fmt.Sprintf("%d resources in the state", state.Resources))
	}
	if plan := apply.Status.Plan; plan != nil && isWaiting(plan) && plan.Request != nil {
		texts = append(texts, fmt.Sprintf("Plan %s (%s) of the one-shot operation %s waits for a decision", plan.ID, planSummary(plan), message.Truncate(plan.Request.Arguments, maxQuote)))
	}
	return strings.Join(texts, ". ")
}

package workspacetemplateapply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
)

// run brings what is wanted and what is applied together.
func (r *Reconciler) run(ctx context.Context, s *scope) error {
	if run := s.current(); run != nil {
		return s.unlessApplied(run.operation(), r.attend(ctx, s, run))
	}
	next, err := decide(s.situation())
	if err != nil || next == nothing {
		r.queue.Release(s.slot())
		return err
	}
	return s.unlessApplied(next.operation, r.start(ctx, s, next))
}

// meanwhile completes a step that may end the list before run is reached: a run
// that goes on is looked after all the same, and a workspace that cannot run
// takes no slot from others.
func (r *Reconciler) meanwhile(step func(context.Context, *scope) error) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		err := step(ctx, s)
		if err == nil {
			return nil
		}
		run := s.current()
		if run == nil {
			r.queue.Release(s.slot())
			return err
		}
		if !record.Claimed(run.secret) {
			return err
		}
		attended := r.attend(ctx, s, run)
		if _, waiting := fault.AsWaiting(attended); waiting {
			return err
		}
		return errors.Join(err, attended)
	}
}

// unlessApplied keeps a workspace applied while it is only being looked at.
func (s *scope) unlessApplied(operation terraform.Operation, err error) error {
	if _, waiting := fault.AsWaiting(err); waiting && operation == terraform.OperationCheckDrift && s.inputs.Hash == s.apply.Status.AppliedInputs {
		return nil
	}
	return err
}

func (s *scope) slot() queue.Key { return queue.Key{Namespace: s.apply.Namespace, Name: s.apply.Name} }

func (s *scope) situation() situation {
	status, notes := s.apply.Status, s.apply.Annotations
	return situation{
		inputs: s.inputs.Hash, applied: status.AppliedInputs, policy: s.inputs.Policy,
		request: record.Shorten(notes[infrav1.RunRequestedAnnotation], longestRequest), handled: status.HandledRequest,
		restore: record.Shorten(notes[infrav1.RestoreSnapshotAnnotation], longestSnapshot), restored: status.HandledRestore,
		approved: s.apply.Spec.ApprovedPlan, rejected: notes[infrav1.RejectPlanAnnotation],
		backend: s.backend(), backendNow: backendName(s.inputs.Request.Backend), backendMoved: notes[infrav1.BackendMovedAnnotation],
		protect: s.inputs.Request.Protect, allowed: s.allowed(), plan: status.Plan, failure: status.Failure, drift: status.Drift,
		driftRequest: record.Shorten(notes[infrav1.CheckDriftAnnotation], longestRequest),
		lastApplied:  status.AppliedAt.Time, jitter: jitter(s), now: s.now,
	}
}

// What a status holds of what people write into annotations.
const (
	longestRequest  = 256
	longestSnapshot = 128 - len(restoring)
)

// backend names where the state is, if it is known to hold something.
func (s *scope) backend() string {
	state := s.apply.Status.State
	if state == nil || state.Resources == 0 || state.Backend == "" {
		return ""
	}
	return strings.TrimSuffix(state.Backend+"-"+state.Configuration, "-")
}

// backendName tells one place of states from another.
func backendName(b terraform.Backend) string {
	if b.HCL == "" {
		return b.Type
	}
	sum := sha256.Sum256([]byte(b.HCL))
	return b.Type + "-" + hex.EncodeToString(sum[:4])
}

// allowed returns the protected addresses that may be destroyed or replaced.
func (s *scope) allowed() []string {
	return terraform.ParseAddresses(s.apply.Annotations[infrav1.AllowDestroyAnnotation])
}

// start asks for a run. The request is stored before anybody acts on it, under
// a name that a second attempt would find taken.
func (r *Reconciler) start(ctx context.Context, s *scope, next decision) error {
	executor := r.executor(s)
	runner, err := r.runner(executor)
	if err != nil {
		return err
	}
	admitted, position := r.queue.Acquire(s.slot(), s.group())
	if !admitted {
		return fault.Wait(infrav1.QueuedReason, "Waiting for a free slot since %s", position.Since.UTC().Format(time.RFC3339))
	}
	// Only who has a slot asks the API server: others will look again anyway.
	if err := r.upToDate(ctx, s); err != nil {
		r.queue.Release(s.slot())
		return err
	}
	observeQueued(position, s.now)
	request, err := s.request(next)
	if err != nil {
		return err
	}
	secret, err := record.NewRun(request, s.runMeta(request, executor))
	if err != nil {
		return err
	}
	if err := r.Client.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		// The cache has not seen it yet.
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s is starting", request.RunID)
	} else if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) {
		r.queue.Release(s.slot())
		return fault.Stall(infrav1.RunFailedReason, "Module and values are too large for one run (a Secret holds 1 MiB): use source: Remote, or smaller values")
	} else if err != nil {
		return fmt.Errorf("storing the run: %w", err)
	}
	run := &runRecord{id: request.RunID, secret: secret}
	number, err := runNumber(run.id)
	if err != nil {
		return err
	}
	s.apply.Status.Runs = number
	ctrl.LoggerFrom(ctx).Info("Run starts", "run", run.id, "operation", next.operation)
	if err := runner.Start(ctx, s.withPod(run.ref())); err != nil {
		return fmt.Errorf("starting run %s: %w", run.id, err)
	}
	s.show(run, nil)
	return fault.Wait(infrav1.RunInProgressReason, "%s", progressMessage(run, nil))
}

// runMeta is what a run's Secret says without being decoded.
func (s *scope) runMeta(request *terraform.Request, executor infrav1.Executor) metav1.ObjectMeta {
	meta := record.Meta(request.Workspace, record.ComponentRun, request.RunID)
	meta.Annotations = map[string]string{
		record.OperationAnnotation: string(request.Operation),
		record.InputsAnnotation:    s.inputsOf(request.Operation),
		record.ExecutorAnnotation:  string(executor),
		record.BackendAnnotation:   request.Backend.Type,
	}
	// Each run says what was handled before it: the status may be lost, and the
	// run that handled it forgotten.
	for key, value := range map[string]string{
		record.RequestAnnotation:  s.situation().request,
		record.RestoredAnnotation: s.apply.Status.HandledRestore,
		record.DriftAnnotation:    s.situation().driftRequest,
	} {
		if value != "" {
			meta.Annotations[key] = value
		}
	}
	return meta
}

// inputsOf names what a run of the operation works on.
func (s *scope) inputsOf(operation terraform.Operation) string {
	switch operation {
	case terraform.OperationRestoreState:
		return restoreInputs(s.situation().restore)
	case terraform.OperationDestroy:
		return destroyInputs
	default:
		return s.inputs.Hash
	}
}

// upToDate makes sure that the cache is not behind before something is done that
// cannot be undone: the workspace may have changed, or be gone.
func (r *Reconciler) upToDate(ctx context.Context, s *scope) error {
	var live infrav1.WorkspaceTemplateApply
	err := r.Reader.Get(ctx, s.key(), &live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the workspace: %w", err)
	}
	if err != nil || live.UID != s.apply.UID || live.Generation != s.apply.Generation || !controllerutil.ContainsFinalizer(&live, infrav1.WorkspaceTemplateApplyFinalizer) {
		return apierrors.NewConflict(infrav1.GroupVersion.WithResource("workspacetemplateapplies").GroupResource(), s.apply.Name, errors.New("the cache is behind"))
	}
	return nil
}

// group is the set of runs that share the provider config's limit.
func (s *scope) group() queue.Group {
	if s.sources.ProviderConfig == nil || s.inputs.Policy.MaxConcurrent == 0 {
		return queue.Group{}
	}
	return queue.Group{
		Name:  s.sources.ProviderConfig.Namespace + "/" + s.sources.ProviderConfig.Name,
		Limit: s.inputs.Policy.MaxConcurrent,
	}
}

// request completes the inputs to the request of one run.
func (s *scope) request(next decision) (*terraform.Request, error) {
	request := s.inputs.Request
	request.RunID = runID(s.apply.Name, s.nextNumber())
	request.Operation = next.operation
	request.Unprotected = s.allowed()
	if next.plan != "" {
		request.Plan = &terraform.PlanRef{ID: next.plan}
	}
	if next.operation == terraform.OperationDestroy {
		// To delete the workspace is to ask for it.
		request.Protect = nil
	}
	request.Snapshot = strings.TrimSuffix(strings.TrimPrefix(s.apply.Annotations[infrav1.RestoreSnapshotAnnotation], "capt-"), "-0")
	request.BreakLock = s.apply.Annotations[infrav1.ForceUnlockAnnotation]
	request.ExpectState = s.apply.Status.State != nil && s.apply.Status.State.Resources > 0
	// A person who asks for a run wants what is at the address now.
	request.Module.Refetch = s.situation().requested() && next.operation != terraform.OperationApply
	for _, run := range s.runs {
		// Whatever has ended holds no lock any more.
		request.GoneRuns = append(request.GoneRuns, run.id)
		result, err := record.Result(run.secret)
		if err != nil {
			return nil, err
		}
		if result != nil && request.LockFile == nil {
			request.LockFile = result.LockFile
		}
		identity, err := record.RunIdentity(run.secret)
		if err != nil {
			return nil, err
		}
		if result != nil && identity != nil && result.Outcome == outcomeLost {
			request.GoneHolders = append(request.GoneHolders, terraform.Holder{Host: identity.Host, Since: run.secret.CreationTimestamp.Time, Until: result.FinishedAt})
		}
	}
	return &request, nil
}

// withPod adds what the job executor needs to know.
func (s *scope) withPod(run terraform.Run) terraform.Run {
	if s.inputs == nil {
		return run
	}
	run.Pod.TimeoutSeconds = int64(s.inputs.Request.Timeout.Seconds())
	config := s.sources.ProviderConfig
	if config == nil || config.Spec.Runner == nil {
		return run
	}
	c := config.Spec.Runner
	run.Pod.Image, run.Pod.ServiceAccountName, run.Pod.NodeSelector = c.Image, c.ServiceAccountName, c.NodeSelector
	if c.Resources != nil {
		run.Pod.Resources = mustJSON(c.Resources)
	}
	if len(c.Tolerations) > 0 {
		run.Pod.Tolerations = mustJSON(c.Tolerations)
	}
	return run
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // API types always marshal.
		panic(fmt.Sprintf("marshalling %T: %v", v, err))
	}
	return text
}

// attend looks after a run that has not ended.
func (r *Reconciler) attend(ctx context.Context, s *scope, run *runRecord) error {
	r.queue.Hold(s.slot(), s.groupOrNone())
	runner, err := r.runner(run.executor())
	if err != nil {
		return err
	}
	liveness, err := runner.Observe(ctx, run.ref())
	if err != nil {
		return fmt.Errorf("observing run %s: %w", run.id, err)
	}
	switch liveness {
	case terraform.LivenessPending:
		if err := runner.Start(ctx, s.withPod(run.ref())); err != nil {
			return fmt.Errorf("starting run %s: %w", run.id, err)
		}
	case terraform.LivenessGone:
		return r.lost(ctx, run)
	case terraform.LivenessUnknown:
		if s.apply.Annotations[infrav1.ForceUnlockAnnotation] == run.id {
			return r.lost(ctx, run)
		}
		return fault.Wait(infrav1.LockHeldReason, "Run %s began on another machine, and nothing proves that it ended. If you know that it did, set the annotation %s to %s",
			run.id, infrav1.ForceUnlockAnnotation, run.id)
	case terraform.LivenessRunning:
		if s.apply.Annotations[infrav1.CancelRunAnnotation] == run.id || !s.apply.DeletionTimestamp.IsZero() && run.operation() != terraform.OperationDestroy {
			if err := runner.Stop(ctx, run.ref()); err != nil {
				return fmt.Errorf("stopping run %s: %w", run.id, err)
			}
			return fault.Wait(infrav1.RunInProgressReason, "Run %s is stopping", run.id)
		}
	}
	progress, err := record.Progress(run.secret)
	if err != nil {
		return err
	}
	s.show(run, progress)
	why, err := r.explain(ctx, run)
	if err != nil {
		return err
	}
	// Should the runner vanish where no watch sees it, the clock does.
	again := time.Minute
	if !record.Claimed(run.secret) {
		// No watch tells what keeps a pod from beginning.
		again = 10 * time.Second
	}
	return fault.WaitFor(again, infrav1.RunInProgressReason, "%s", strings.TrimSuffix(progressMessage(run, progress)+". "+why, ". "))
}

func (s *scope) groupOrNone() queue.Group {
	if s.inputs == nil {
		return queue.Group{}
	}
	return s.group()
}

// lost records the end of a run whose runner is gone without a word.
func (r *Reconciler) lost(ctx context.Context, run *runRecord) error {
	var fresh corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.secret), &fresh); err != nil {
		return fmt.Errorf("reading run %s: %w", run.id, err)
	}
	if record.Finished(&fresh) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just ended", run.id)
	}
	why, err := r.explain(ctx, run)
	if err != nil {
		return err
	}
	now := r.Now()
	err = record.SetResult(&fresh, &terraform.Result{
		RunID: run.id, Operation: run.operation(), Outcome: outcomeLost, Class: terraform.ClassTransient,
		StartedAt: fresh.CreationTimestamp.Time, FinishedAt: now,
		Diagnostics: terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: "The runner is gone", Detail: strings.TrimSpace("It left no result; the next run goes on from the state. " + why)}},
	})
	if err != nil {
		return err
	}
	if err := r.Client.Update(ctx, &fresh); err != nil {
		return fmt.Errorf("recording the end of run %s: %w", run.id, err)
	}
	return fault.Wait(infrav1.RunInterruptedReason, "Run %s is gone without a result; the next one goes on", run.id)
}

// show puts a run that goes on into the status.
func (s *scope) show(run *runRecord, progress *terraform.Progress) {
	started := run.secret.CreationTimestamp
	if started.IsZero() {
		started = metav1.NewTime(s.now)
	}
	s.apply.Status.Run = &infrav1.RunStatus{
		ID: run.id, Operation: infrav1.RunOperation(run.operation()), Inputs: run.inputs(), StartedAt: started,
	}
	if progress == nil {
		return
	}
	shown := &infrav1.RunProgress{Phase: string(progress.Phase), Done: int32(progress.Done), Total: int32(progress.Total)}
	for _, c := range progress.Current[:min(len(progress.Current), 10)] {
		shown.Current = append(shown.Current, infrav1.CurrentResource{Address: limit(c.Address, 1024), Action: string(c.Action), Since: metav1.NewTime(c.Since)})
	}
	s.apply.Status.Run.Progress = shown
}

func progressMessage(run *runRecord, p *terraform.Progress) string {
	if p == nil {
		return fmt.Sprintf("Run %s (%s) goes on", run.id, run.operation())
	}
	message := fmt.Sprintf("Run %s is %s", run.id, strings.ToLower(string(p.Phase)))
	if p.Total > 0 {
		message += fmt.Sprintf(": %d of %d resources", p.Done, p.Total)
	}
	if len(p.Current) > 0 {
		message += fmt.Sprintf(", now %s since %s", p.Current[0].Address, p.Current[0].Since.UTC().Format(time.RFC3339))
	}
	return message
}

func appliedMessage(s *scope) string {
	if state := s.apply.Status.State; state != nil {
		return fmt.Sprintf("%d resources in the state", state.Resources)
	}
	return ""
}

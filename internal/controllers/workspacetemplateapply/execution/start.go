package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// StateInterval is how often a restored workspace reads its state. A state that was
// restored by hand has no owner, and so no watch event.
const StateInterval = 5 * time.Second

// mayStart returns a fault if no run may start: a user works with the state, or the state was
// lost or is not restored yet. A run would reserve an empty one, and clusterctl would then
// skip the right one.
func (r *Reconciler) mayStart(ctx context.Context, s *Scope, next decision.Decision) error {
	if err := history.ShellFault(s.Apply); err != nil {
		return err
	}
	if !s.ExpectsState() || s.Inputs.Request.Backend.Type != terraform.BackendKubernetes || s.bringsState(next) {
		return nil
	}
	// A state that could not be saved to the Secret is saved by the run.
	if rescued, err := r.RescuedStates(ctx, s.Workspace); err != nil || len(rescued) > 0 {
		return err
	}
	known, key := s.knownState(), client.ObjectKey{Namespace: s.Apply.Namespace, Name: s.KubernetesBackend().StateSecretName()}
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	empty, found, err := record.StateIsEmpty(&secret)
	if err != nil {
		return nil //nolint:nilerr // A run reports that the state cannot be read.
	}
	if !empty {
		found.Resources = 1
	}
	if known.Compare(found, true) != terraform.StateMissing {
		return nil
	}
	return fault.WaitFor(StateInterval, infrav1.StateMissingReason, "%s", s.missingState(known, key))
}

// bringsState reports whether a run restores the state, or saves what a lost run left before
// the resources are retained.
func (s *Scope) bringsState(next decision.Decision) bool {
	switch next.Operation {
	case terraform.OperationRestoreState, terraform.OperationSaveState:
		return true
	case terraform.OperationStateCommand:
		return s.Situation().Command.Command == terraform.StatePush
	default:
		return false
	}
}

// missingState explains why no run starts, and what to do.
func (s *Scope) missingState(known terraform.KnownState, key client.ObjectKey) string {
	keep := ""
	if !s.Apply.DeletionTimestamp.IsZero() {
		keep = "To delete the workspace only, set retainWorkspaceOnDelete: true. "
	}
	return fmt.Sprintf("The annotation %s says that this workspace had a state, but Secret %s is missing or empty: no run starts. Restore the Secret from a backup, or the state with captctl state push or captctl state restore. %sTo start with an empty state and leave the resources to you, run captctl state adopt --version %s",
		infrav1.StateLineageAnnotation, key, keep, known.AdoptNothing())
}

// UnlessApplied returns the error of a run, except the wait for a run of an applied
// workspace that changes nothing: the workspace stays applied meanwhile.
func (s *Scope) UnlessApplied(operation terraform.Operation, inputs string, err error) error {
	_, waiting := fault.AsWaiting(err)
	if waiting && runs.ChangesNothing(operation, inputs) && s.Inputs.Hash == s.Apply.Status.AppliedInputs {
		return nil
	}
	return err
}

// Start starts a run. The request is stored before a runner acts on it. Its name
// has the number of the run, so that a second attempt fails.
func (r *Reconciler) Start(ctx context.Context, s *Scope, next decision.Decision) error {
	if err := r.mayStart(ctx, s, next); err != nil {
		return err
	}
	executor := r.Executor(s)
	runner, err := r.Runner(s.Workspace, executor)
	if err != nil {
		return err
	}
	admitted, since := r.Queue.Acquire(s.Slot(), s.groupOf(next))
	s.KeepsSlot = true
	if !admitted {
		return fault.Wait(infrav1.QueuedReason, "Waiting for a free slot since %s", since.UTC().Format(time.RFC3339))
	}
	// Only a workspace with a slot reads from the API server.
	s.Unused = r.UnusedNumber(s.Workspace)
	// If the next run exists, its number is taken, or its creation fails.
	if err := r.EnsureRunCurrent(ctx, s.Workspace, s.NextNumber()-1); err != nil {
		return err
	}
	history.ObserveQueued(since, s.Now)
	number := s.NextNumber()
	request, err := r.prepare(ctx, s, next)
	if err != nil {
		s.KeepsSlot = false
		return err
	}
	if err := r.EnsureRequested(ctx, s.Workspace, s.Fulfils(next.Operation, next.OneShot)); err != nil {
		s.KeepsSlot = false
		return err
	}
	secret, err := record.NewRun(request, s.RunMeta(request, executor))
	if err == nil {
		s.Seal(secret)
		if err := r.TakeNumber(ctx, s.Workspace, number); err != nil {
			return err
		}
		if err := r.EnsureAlone(ctx, s.Workspace, number); err != nil {
			return err
		}
		err = r.Client.Create(ctx, secret)
	}
	if err != nil {
		s.KeepsSlot = false
		r.RememberUnused(s.Workspace, number, err)
		if apierrors.IsAlreadyExists(err) {
			return r.SkipNumbers(ctx, s.Workspace, number)
		}
		return StoreFault(err)
	}
	r.Unused.Delete(s.Apply.UID)
	r.SetActive(s.Workspace, number)
	if err := r.EnsureLast(ctx, s.Workspace, number, secret); err != nil {
		return err
	}
	run := &runs.Run{ID: request.RunID, Workspace: s.Apply.Name, WorkspaceUID: s.Apply.UID, Number: number, Secret: secret, Origin: runs.OriginSealed}
	s.StartState(request)
	ctrl.LoggerFrom(ctx).Info("Starting run", "run", run.ID, "operation", next.Operation)
	return launch(ctx, s, runner, run, request)
}

// prepare returns the request of the next run, and stores what it needs.
func (r *Reconciler) prepare(ctx context.Context, s *Scope, next decision.Decision) (request *terraform.Request, err error) {
	if s.rescued, err = r.RescuedStates(ctx, s.Workspace); err != nil {
		return nil, err
	}
	if request, err = r.Request(ctx, s, next); err != nil {
		return nil, err
	}
	return request, r.StoreArtifact(ctx, s.Artifact, request)
}

// launch starts the runner of a stored run.
func launch(ctx context.Context, s *Scope, runner terraform.Runner, run *runs.Run, request *terraform.Request) error {
	ref := run.Ref()
	ref.Request = request
	if err := runner.Start(ctx, ref); err != nil {
		return fmt.Errorf("starting run %s: %w", run.ID, err)
	}
	s.SetRunStatus(run, nil)
	return fault.Wait(infrav1.RunInProgressReason, "%s", ProgressMessage(run, nil))
}

// StoreFault turns the error of storing a run that is too large into a fault.
func StoreFault(err error) error {
	switch {
	case errors.Is(err, record.ErrRequestTooLarge), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err):
		return fault.Stall(infrav1.RunFailedReason, "Module and values exceed the size of a Secret (1 MiB): use source: Remote or smaller values")
	default:
		return fmt.Errorf("storing the run: %w", err)
	}
}

// DefaultStartTimeout is how long a pod may take to start. It may need a new node.
const DefaultStartTimeout = 15 * time.Minute

// hopeless are the reasons of pods that rarely start later without a change.
var hopeless = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError"}

// IsStuck reports whether a run has been waiting for its pod for too long. It would keep
// its slot, which others need.
func (r *Reconciler) IsStuck(run *runs.Run, explanation string) bool {
	if record.Claimed(run.Secret) || run.Executor() != infrav1.ExecutorJob {
		return false
	}
	timeout := r.startTimeout()
	for _, reason := range hopeless {
		if strings.Contains(explanation, reason) {
			return run.Age(r.Now()) > timeout/3
		}
	}
	return run.Age(r.Now()) > timeout
}

// startTimeout returns how long a run may take to start.
func (r *Reconciler) startTimeout() time.Duration { return cmp.Or(r.StartTimeout, DefaultStartTimeout) }

// failStart ends a run that could not start. It is retried with backoff.
func (r *Reconciler) failStart(ctx context.Context, run *runs.Run, why string) error {
	err := r.endUnclaimed(ctx, run, func(result *terraform.Result) {
		result.Outcome = terraform.OutcomeFailed
		result.Diagnostics[0].Summary, result.Diagnostics[0].Detail = "The run could not start", why
	})
	if err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RetryingReason, "Run %s could not start. %s", run.ID, why)
}

// StartState records that a run may change the state, before it ends: its record may
// be lost.
func (s *Scope) StartState(request *terraform.Request) {
	if !runs.ChangesState(request.Operation) {
		return
	}
	state := s.Apply.Status.State.DeepCopy()
	if state == nil {
		state = &infrav1.StateStatus{Backend: request.Backend.Type}
		if _, configuration, found := strings.Cut(runs.BackendName(request.Backend), "-"); found {
			state.Configuration = configuration
		}
		if state.Backend == terraform.BackendKubernetes {
			state.SecretName = s.KubernetesBackend().StateSecretName()
		}
	}
	state.Confirmation = infrav1.StateUnconfirmed
	if source := s.OutputsSource(); source != nil {
		state.TemplateRef = &source.TemplateRef
	}
	state.Requirements = template.MergeRequirements(state.Requirements, s.Required(request.Operation))
	s.Apply.Status.State = state
}

// Package job executes runs as Kubernetes Jobs. Each run has its own pod and
// service account, which can access the run's Secret, its state and its lock,
// and little else.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=secrets/capt,verbs=store
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups="",resources=pods;events,verbs=get;list

// Options configures an Executor.
type Options struct {
	// Client writes objects.
	Client client.Client
	// Reader reads from the API server, because a stale cache does not prove
	// that a runner has ended.
	Reader client.Reader
	// Image is the default image of the runner.
	Image string
	// Env is added to the runner's environment, for example the proxy settings
	// of the cluster.
	Env []corev1.EnvVar
	// NetworkPolicy limits the network of the pods in each namespace with runs.
	NetworkPolicy bool
}

// Executor creates a Job for each run.
type Executor struct{ Options }

var (
	_ terraform.Runner    = &Executor{}
	_ terraform.Explainer = &Executor{}
)

// New returns an executor.
func New(options Options) *Executor { return &Executor{Options: options} }

// name returns the name of all objects of a run.
func name(runID string) string { return access.Name(runID) }

func (e *Executor) granter() access.Granter {
	return access.Granter{Client: e.Client, Reader: e.Reader}
}

func key(run terraform.Run) client.ObjectKey {
	return client.ObjectKey{Namespace: run.Namespace, Name: name(run.ID)}
}

// Start creates the Job and the objects that it needs, the Job last: if it
// exists, all others do. Start continues after an earlier, interrupted Start.
func (e *Executor) Start(ctx context.Context, run terraform.Run) error {
	request, err := access.PendingRequest(ctx, e.Reader, run)
	if err == nil && request == nil {
		return nil
	}
	var job *batchv1.Job
	if err == nil {
		job, err = e.start(ctx, run, request)
	}
	if diagnostic := diagnose(err); diagnostic != nil {
		return e.finish(ctx, run, terraform.OutcomeFailed, terraform.ClassTerminal, *diagnostic)
	}
	if err != nil {
		return fmt.Errorf("starting run: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Started Job", "run", run.ID, "job", klog.KObj(job))
	return nil
}

func (e *Executor) start(ctx context.Context, run terraform.Run, request *terraform.Request) (*batchv1.Job, error) {
	job, err := e.job(run, request)
	if err != nil {
		return nil, err
	}
	if e.NetworkPolicy {
		if err := e.isolate(ctx, run.Namespace); err != nil {
			return nil, err
		}
	}
	if err := e.granter().Grant(ctx, run, request); err != nil {
		return nil, err
	}
	if request.Pod.ServiceAccountName != "" {
		if err := e.granter().StoreToken(ctx, run, request); err != nil {
			return nil, err
		}
	}
	return job, e.create(ctx, job)
}

// diagnose returns the diagnostic of an error after which a run can never start, or nil.
// A run has its request since it was created.
func diagnose(err error) *terraform.Diagnostic {
	if _, invalid := errors.AsType[*invalidPodError](err); invalid {
		return &terraform.Diagnostic{
			Severity: terraform.SeverityError, Summary: "Invalid settings of the pod",
			Detail: err.Error() + ". Correct spec.runner of the WorkspaceProviderConfig, then request a run.",
		}
	}
	if errors.Is(err, record.ErrForged) {
		return &terraform.Diagnostic{
			Severity: terraform.SeverityError, Summary: "Request of another run",
			Detail: err.Error() + ". Check what the modules of this namespace do, then request a run.",
		}
	}
	return nil
}

// create creates the Job unless it exists. It returns an error for the Job of an
// earlier workspace of the same name, which the garbage collector will delete.
func (e *Executor) create(ctx context.Context, job *batchv1.Job) error {
	err := e.Client.Create(ctx, job)
	if apierrors.IsInvalid(err) {
		return &invalidPodError{err}
	}
	if !apierrors.IsAlreadyExists(err) {
		return wrap("creating Job "+job.Name, err)
	}
	var existing batchv1.Job
	if err := e.Reader.Get(ctx, client.ObjectKeyFromObject(job), &existing); err != nil {
		return fmt.Errorf("reading Job %s: %w", job.Name, err)
	}
	if !sameOwner(&existing, job) {
		return fmt.Errorf("creating Job %s: waiting for the deletion of the Job of an earlier workspace of the same name", job.Name)
	}
	return nil
}

// sameOwner reports whether the same workspace controls both objects.
func sameOwner(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	return x != nil && y != nil && x.UID == y.UID
}

// Stop terminates the pod gracefully. A run that no runner has claimed is
// finished, so that it never starts.
func (e *Executor) Stop(ctx context.Context, run terraform.Run, interrupt bool) error {
	err := e.finish(ctx, run, terraform.OutcomeInterrupted, terraform.ClassTransient, terraform.Diagnostic{
		Severity: terraform.SeverityError, Summary: "Stopped before it started", Detail: "The run was stopped while its pod was starting. Nothing was changed.",
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("stopping run: %w", err)
	}
	// The signal alone is also that of a node that is drained.
	if interrupt {
		if err := access.Interrupt(ctx, e.Reader, e.Client, run); err != nil {
			return err
		}
	}
	// In a foreground deletion the Job exists until its pod is deleted. The
	// deletion of the Job, which is watched, is the only signal of a runner that
	// is killed at the end of its grace period.
	return e.delete(ctx, run, metav1.DeletePropagationForeground)
}

// End stops the pod of a run whose record was deleted. In a foreground deletion the Job
// exists until its pod is deleted.
func (e *Executor) End(ctx context.Context, run terraform.Run) (bool, error) {
	var job batchv1.Job
	err := e.Reader.Get(ctx, key(run), &job)
	switch {
	case apierrors.IsNotFound(err):
		return e.hasNoPod(ctx, run)
	case err != nil:
		return false, fmt.Errorf("reading Job of the run: %w", err)
	case ofAnother(&job, run):
		// The garbage collector deletes that of an earlier workspace. One of the next
		// workspace shows that this manager is late.
		return finished(&job), nil
	case finished(&job):
		return true, e.Forget(ctx, run)
	}
	err = e.Client.Delete(ctx, &job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
	return false, wrap("deleting Job "+job.Name, client.IgnoreNotFound(err))
}

// hasNoPod reports whether no pod of a run is left. A background deletion, for example that
// of a workspace in the foreground, deletes a Job before its pod has ended.
func (e *Executor) hasNoPod(ctx context.Context, run terraform.Run) (bool, error) {
	var pods corev1.PodList
	if err := e.Reader.List(ctx, &pods, client.InNamespace(run.Namespace), client.MatchingLabels{batchv1.JobNameLabel: key(run).Name}); err != nil {
		return false, fmt.Errorf("listing pods of the run: %w", err)
	}
	return !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}), nil
}

// finish finishes a run that no runner has claimed, so that none will.
func (e *Executor) finish(ctx context.Context, run terraform.Run, outcome terraform.Outcome, class terraform.Class, diagnostic terraform.Diagnostic) error {
	for {
		secret, err := access.ReadRun(ctx, e.Reader, run)
		if err != nil || record.Claimed(secret) || record.Finished(secret) {
			return err
		}
		now := time.Now()
		result := &terraform.Result{
			RunID: run.ID, Outcome: outcome, Class: class, StartedAt: now, FinishedAt: now,
			Operation:   terraform.Operation(secret.Annotations[record.OperationAnnotation]),
			Diagnostics: terraform.Diagnostics{diagnostic},
		}
		if err := record.SetResult(secret, result); err != nil {
			return err
		}
		if err := e.Client.Update(ctx, secret); !apierrors.IsConflict(err) {
			return wrap("finishing run", err)
		}
	}
}

func (e *Executor) delete(ctx context.Context, run terraform.Run, policy metav1.DeletionPropagation) error {
	var job batchv1.Job
	err := e.Reader.Get(ctx, key(run), &job)
	if err == nil {
		if ofAnother(&job, run) {
			return nil
		}
		err = e.Client.Delete(ctx, &job, client.PropagationPolicy(policy), client.Preconditions{UID: &job.UID})
	}
	return wrap("deleting Job "+name(run.ID), client.IgnoreNotFound(err))
}

// ofAnother reports whether a Job is that of an earlier or the next workspace of the name.
func ofAnother(job *batchv1.Job, run terraform.Run) bool {
	owner := metav1.GetControllerOfNoCopy(job)
	return owner != nil && string(owner.UID) != run.WorkspaceUID
}

// Forget deletes the Job, its pod and its service account. The log is in the
// run's Secret.
func (e *Executor) Forget(ctx context.Context, run terraform.Run) error {
	return errors.Join(e.delete(ctx, run, metav1.DeletePropagationBackground), e.granter().Revoke(ctx, run))
}

// Remove deletes the service accounts of all runs of a workspace. The garbage
// collector deletes the Jobs.
func (e *Executor) Remove(ctx context.Context, workspace terraform.WorkspaceRef) error {
	return e.granter().RevokeAll(ctx, workspace)
}

func wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", action, err)
}

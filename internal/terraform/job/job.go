// Package job runs the runner as a Kubernetes Job. Each run has a pod and an
// account of its own, which can touch the run's request, its state and its lock,
// and little else.
package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Options is how Jobs are made.
type Options struct {
	// Client writes.
	Client client.Client
	// Reader reads past any cache: whether a runner is gone must not be decided
	// by what was true a moment ago.
	Reader client.Reader
	// Image is the runner's, unless the run names another.
	Image string
	// Env is added to the runner's environment: how the cluster reaches the
	// world outside.
	Env []corev1.EnvVar
}

// Executor makes a Job for each run.
type Executor struct {
	Options
}

var (
	_ terraform.Runner    = &Executor{}
	_ terraform.Explainer = &Executor{}
)

// New returns an executor.
func New(options Options) *Executor { return &Executor{Options: options} }

// longestName is what a Job's name may have: its pods carry it as a label.
const longestName = 63

// name is that of everything that is made for a run.
func name(runID string) string { return record.Shorten("capt-run-"+runID, longestName) }

func key(run terraform.Run) client.ObjectKey {
	return client.ObjectKey{Namespace: run.Namespace, Name: name(run.ID)}
}

// Start makes the Job and what it needs, the Job last: whenever it exists,
// everything else does. What an interrupted start has made is taken as it is.
func (e *Executor) Start(ctx context.Context, run terraform.Run) error {
	secret, err := e.secret(ctx, run)
	if err != nil {
		return err
	}
	if record.Claimed(secret) || record.Finished(secret) {
		return nil
	}
	request, err := record.Request(secret)
	if err != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	job, err := e.job(run, request)
	if err != nil {
		return err
	}
	if err := e.grant(ctx, run, request); err != nil {
		return err
	}
	if err := e.create(ctx, job); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Started Job", "run", run.ID, "job", klog.KObj(job))
	return nil
}

// create makes the Job unless it exists. One of an earlier workspace of the same
// name is about to be collected as garbage and cannot be used.
func (e *Executor) create(ctx context.Context, job *batchv1.Job) error {
	err := e.Client.Create(ctx, job)
	if !apierrors.IsAlreadyExists(err) {
		return wrap("creating Job "+job.Name, err)
	}
	var existing batchv1.Job
	if err := e.Reader.Get(ctx, client.ObjectKeyFromObject(job), &existing); err != nil {
		return fmt.Errorf("reading Job %s: %w", job.Name, err)
	}
	if !sameOwner(&existing, job) {
		return fmt.Errorf("the Job %s belongs to somebody else; waiting until it is gone", job.Name)
	}
	return nil
}

// sameOwner tells whether two objects are of the same workspace.
func sameOwner(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	return x != nil && y != nil && x.UID == y.UID
}

// Stop has the pod end gracefully. A run that has not begun never will.
func (e *Executor) Stop(ctx context.Context, run terraform.Run) error {
	err := e.giveUp(ctx, run)
	for apierrors.IsConflict(err) {
		err = e.giveUp(ctx, run)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("stopping a run: %w", err)
	}
	// The Job stays until its pod is gone, and its going is watched: a runner
	// that is killed at the end of its grace leaves no other sign.
	return e.delete(ctx, run, metav1.DeletePropagationForeground)
}

// giveUp ends a run that nobody has begun, so that no runner takes it up.
func (e *Executor) giveUp(ctx context.Context, run terraform.Run) error {
	secret, err := e.secret(ctx, run)
	if err != nil || record.Claimed(secret) || record.Finished(secret) {
		return err
	}
	now := time.Now()
	result := &terraform.Result{
		RunID: run.ID, Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient, StartedAt: now, FinishedAt: now,
		Operation: terraform.Operation(secret.Annotations[record.OperationAnnotation]),
		Diagnostics: terraform.Diagnostics{{
			Severity: terraform.SeverityError, Summary: "Stopped before it began", Detail: "The run was stopped while its pod was starting; nothing was done.",
		}},
	}
	if err := record.SetResult(secret, result); err != nil {
		return err
	}
	return e.Client.Update(ctx, secret)
}

func (e *Executor) delete(ctx context.Context, run terraform.Run, policy metav1.DeletionPropagation) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: name(run.ID)}}
	if err := e.Client.Delete(ctx, job, client.PropagationPolicy(policy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}
	return nil
}

// Forget deletes the Job, its pod and its account; the log is in the run's
// Secret.
func (e *Executor) Forget(ctx context.Context, run terraform.Run) error {
	return errors.Join(e.delete(ctx, run, metav1.DeletePropagationBackground), e.revoke(ctx, run.Namespace, name(run.ID)))
}

func (e *Executor) secret(ctx context.Context, run terraform.Run) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := e.Reader.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: record.SecretName(run.ID)}, secret); err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	return secret, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

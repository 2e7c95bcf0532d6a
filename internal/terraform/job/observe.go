package job

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Observe tells whether the run's process exists. A run that has begun is where
// the pod is that began it; one that has not is as alive as its Job.
func (e *Executor) Observe(ctx context.Context, run terraform.Run) (terraform.Liveness, error) {
	secret, err := e.secret(ctx, run)
	if err != nil {
		return terraform.LivenessUnknown, err
	}
	if !record.Claimed(secret) {
		liveness, err := e.observeJob(ctx, run, secret)
		if err != nil || liveness != terraform.LivenessGone {
			return liveness, err
		}
		// Only now that the Job has ended all that its pod wrote can be read.
		if secret, err = e.secret(ctx, run); err != nil {
			return terraform.LivenessUnknown, err
		}
	}
	identity, err := record.RunIdentity(secret)
	if err != nil {
		return terraform.LivenessUnknown, err
	}
	if identity == nil {
		// Its runner died before it could say who it is. It did nothing, and
		// there is nobody left who could.
		return terraform.LivenessGone, nil
	}
	return e.observePod(ctx, identity)
}

// observeJob tells how a run is that has not begun.
func (e *Executor) observeJob(ctx context.Context, run terraform.Run, secret *corev1.Secret) (terraform.Liveness, error) {
	var job batchv1.Job
	err := e.Reader.Get(ctx, key(run), &job)
	switch {
	case apierrors.IsNotFound(err):
		return terraform.LivenessPending, nil
	case err != nil:
		return terraform.LivenessUnknown, fmt.Errorf("reading the Job of a run: %w", err)
	case !sameOwner(&job, secret):
		return terraform.LivenessPending, nil
	case ended(&job):
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}

// observePod asks Kubernetes about the pod of a runner, whatever is known of the
// Job.
func (e *Executor) observePod(ctx context.Context, identity *record.Identity) (terraform.Liveness, error) {
	var pod corev1.Pod
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
	return identity.PodLiveness(&pod, err)
}

func ended(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

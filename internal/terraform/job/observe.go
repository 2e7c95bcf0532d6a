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
	"github.com/appthrust/capt/internal/terraform/access"
	"github.com/appthrust/capt/internal/terraform/record"
)

// Observe returns the liveness of the run's process. The liveness of a claimed
// run is that of the pod that claimed it. The liveness of an unclaimed run is
// that of its Job.
func (e *Executor) Observe(ctx context.Context, run terraform.Run) (terraform.Liveness, error) {
	secret, err := access.ReadRun(ctx, e.Reader, run)
	if err != nil {
		return terraform.LivenessUnknown, err
	}
	if !record.Claimed(secret) {
		liveness, err := e.observeJob(ctx, run, secret)
		if err != nil || liveness != terraform.LivenessGone {
			return liveness, err
		}
		// The Job has finished, so its pod writes nothing more. Read its claim.
		if secret, err = access.ReadRun(ctx, e.Reader, run); err != nil {
			return terraform.LivenessUnknown, err
		}
	}
	identity, err := record.RunIdentity(secret)
	if err != nil {
		return terraform.LivenessUnknown, err
	}
	if identity == nil {
		// The runner exited before it claimed the run. It changed nothing, and no
		// other runner can claim the run.
		return terraform.LivenessGone, nil
	}
	return e.observePod(ctx, run, identity)
}

// observeJob returns the liveness of an unclaimed run.
func (e *Executor) observeJob(ctx context.Context, run terraform.Run, secret *corev1.Secret) (terraform.Liveness, error) {
	var job batchv1.Job
	err := e.Reader.Get(ctx, key(run), &job)
	switch {
	case apierrors.IsNotFound(err):
		return terraform.LivenessPending, nil
	case err != nil:
		return terraform.LivenessUnknown, fmt.Errorf("reading Job of the run: %w", err)
	case !sameOwner(&job, secret):
		return terraform.LivenessPending, nil
	case finished(&job):
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}

// observePod returns the liveness of the pod of a runner, regardless of its Job. A module can
// change the identity of its run: only a pod of the run keeps the run alive, and nothing of
// other namespaces is read.
func (e *Executor) observePod(ctx context.Context, run terraform.Run, identity *record.Identity) (terraform.Liveness, error) {
	var pod corev1.Pod
	if identity.PodName != "" {
		err := e.Reader.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: identity.PodName}, &pod)
		if client.IgnoreNotFound(err) != nil {
			return terraform.LivenessUnknown, fmt.Errorf("reading runner pod: %w", err)
		}
	}
	if pod.Labels[batchv1.JobNameLabel] == key(run).Name && string(pod.UID) == identity.PodUID {
		return identity.PodLiveness(&pod, nil)
	}
	ended, err := e.hasNoPod(ctx, run)
	switch {
	case err != nil:
		return terraform.LivenessUnknown, err
	case ended:
		return terraform.LivenessGone, nil
	default:
		return terraform.LivenessRunning, nil
	}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

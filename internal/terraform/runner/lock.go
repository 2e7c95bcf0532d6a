package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// lockInfoAnnotation is where OpenTofu and Terraform keep who holds the lock,
// so that people who run them by hand see that a run is going on.
const lockInfoAnnotation = "app.terraform.io/lock-info"

// heldError is a lock that somebody else holds.
type heldError struct{ info terraform.LockInfo }

func (e *heldError) Error() string {
	return fmt.Sprintf("the state is locked by %s since %s (lock %s)", e.info.Who, e.info.Created, e.info.ID)
}

// lock takes the lock of a Kubernetes state in the name of the run. A lock that
// is held is taken over only from a run that is proven gone, or when a person
// asked for it by its id.
func (r *Runner) lock(ctx context.Context, request *terraform.Request) error {
	info := terraform.LockInfo{
		ID: r.RunID, Operation: "CAPT" + string(request.Operation), Who: r.who(), Version: "capt",
		Created: time.Now().UTC().Format(time.RFC3339), Path: request.Backend.StateSecretName(),
		Info: request.Workspace.Namespace + "/" + request.Workspace.Name,
	}
	text, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("encoding the lock: %w", err)
	}
	for {
		err := r.tryLock(ctx, request, string(text))
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func (r *Runner) tryLock(ctx context.Context, request *terraform.Request, info string) error {
	namespace, name := request.Backend.Namespace, request.Backend.LeaseName()
	lease, err := r.kube.lease(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		meta := record.Meta(request.Workspace, record.ComponentState, "")
		meta.Name = name
		meta.Labels["tfstate"] = "true"
		meta.Annotations = map[string]string{lockInfoAnnotation: info}
		return r.kube.createLease(ctx, &coordinationv1.Lease{
			ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &r.RunID},
		})
	}
	if err != nil {
		return fmt.Errorf("reading the lock: %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	mine := holder == "" || holder == r.RunID || holder == request.BreakLock || slices.Contains(request.GoneRuns, holder)
	if !mine {
		held := &heldError{info: terraform.LockInfo{ID: holder, Who: "unknown"}}
		// A lock that says nothing about itself is still a lock.
		_ = json.Unmarshal([]byte(lease.Annotations[lockInfoAnnotation]), &held.info)
		// Who breaks it has to name the holder, whatever the lock says of itself.
		held.info.ID = holder
		return held
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[lockInfoAnnotation] = info
	lease.Spec.HolderIdentity = &r.RunID
	return r.kube.updateLease(ctx, lease)
}

// unlock gives the lock back. It does not end with the run's context: a lock
// that stays would stop the next run.
func (r *Runner) unlock(ctx context.Context, request *terraform.Request) error {
	return persist(ctx, "releasing the lock", func(ctx context.Context) error {
		lease, err := r.kube.lease(ctx, request.Backend.Namespace, request.Backend.LeaseName())
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != r.RunID {
			return nil
		}
		delete(lease.Annotations, lockInfoAnnotation)
		lease.Spec.HolderIdentity = nil
		return r.kube.updateLease(ctx, lease)
	})
}

// persist tries again until it succeeds or the patience ends: what a run did
// must be written down, even when the API server is away for a while.
func persist(ctx context.Context, what string, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		attempt, stop := context.WithTimeout(ctx, 30*time.Second)
		err := write(attempt)
		stop()
		var permanent *permanentError
		if err == nil || errors.As(err, &permanent) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return wrap(what, err)
		}
		select {
		case <-ctx.Done():
			return wrap(what, fmt.Errorf("given up after %s: %w", patience, err))
		case <-time.After(wait):
		}
	}
}

// permanentError is one that trying again does not mend.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// patience is how long a runner waits for the API server to come back.
const patience = 30 * time.Minute

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

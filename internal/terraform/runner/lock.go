package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// heldError is the error for a lock with another holder.
type heldError struct{ info terraform.LockInfo }

func (e *heldError) Error() string {
	return fmt.Sprintf("the state is locked by %s since %s (lock %s)", e.info.Who, e.info.Created, e.info.ID)
}

// stateLock is the Lease that locks the state of the Kubernetes backend.
type stateLock struct {
	kube             *kube
	namespace, runID string
	// held is the lock as this runner has written it, or nil.
	held *coordinationv1.Lease
}

// lock locks a Kubernetes state for the run. It takes the lock from another holder
// only if that is a run that is proven to have ended, or if the user requested it
// by the lock's ID.
func (l *stateLock) lock(ctx context.Context, request *terraform.Request) error {
	info := terraform.LockInfo{
		ID: l.runID, Operation: "CAPT" + string(request.Operation), Who: l.holder(), Version: "capt",
		Created: time.Now().UTC().Format(time.RFC3339), Path: request.Backend.StateSecretName(),
		Info: request.Workspace.Namespace + "/" + request.Workspace.Name,
	}
	text, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("encoding the lock: %w", err)
	}
	for {
		err := l.tryLock(ctx, request, string(text))
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func (l *stateLock) tryLock(ctx context.Context, request *terraform.Request, info string) error {
	namespace, name := request.Backend.Namespace, request.Backend.LeaseName()
	lease, err := l.kube.lease(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		meta := record.Meta(request.Workspace, record.ComponentState, "")
		meta.Name = name
		meta.Labels["tfstate"] = "true"
		meta.Annotations = map[string]string{record.LockInfoAnnotation: info}
		l.held = &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.runID}}
		return l.kube.createLease(ctx, l.held)
	}
	if err != nil {
		return fmt.Errorf("reading the lock: %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if !canTakeLock(request, l.runID, holder) {
		held := &heldError{info: terraform.LockInfo{ID: holder, Who: "unknown"}}
		// A lock without a valid description is still a lock.
		_ = json.Unmarshal([]byte(lease.Annotations[record.LockInfoAnnotation]), &held.info)
		// Breaking the lock requires the holder, whatever ID the description has.
		held.info.ID = holder
		return held
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[record.LockInfoAnnotation] = info
	lease.Spec.HolderIdentity = &l.runID
	l.held = lease
	return l.kube.updateLease(ctx, lease)
}

// canTakeLock reports whether the run may take the lock from its holder.
func canTakeLock(request *terraform.Request, runID, holder string) bool {
	return holder == "" || holder == runID || holder == request.BreakLock || slices.Contains(request.GoneRuns, holder)
}

// canBreakLock reports whether the request's run may break a lock that the tool
// took: that of a run that is proven to have ended, or the one that the user named.
func canBreakLock(request *terraform.Request, lock terraform.LockInfo) bool {
	return lock.ID == request.BreakLock ||
		slices.ContainsFunc(request.GoneHolders, func(h terraform.Holder) bool { return h.Held(lock) })
}

// unlock releases the lock. It ignores the cancellation of the run's context,
// because a remaining lock would block the next run. The lock is read only if another one
// has written it.
func (l *stateLock) unlock(ctx context.Context, request *terraform.Request) error {
	held := l.held
	return persist(ctx, "releasing the lock", func(ctx context.Context) error {
		lease, err := held, error(nil)
		if held == nil {
			lease, err = l.kube.lease(ctx, request.Backend.Namespace, request.Backend.LeaseName())
		}
		held = nil
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != l.runID {
			return nil
		}
		delete(lease.Annotations, record.LockInfoAnnotation)
		lease.Spec.HolderIdentity = nil
		if err := l.kube.updateLease(ctx, lease); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}

// holder returns the name of the lock's holder for users.
func (l *stateLock) holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.Join([]string{"capt", l.namespace, l.runID}, "/") + "@" + host
}

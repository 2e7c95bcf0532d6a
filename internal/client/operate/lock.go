package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/host"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// Lock is the lock of a workspace's state.
type Lock struct {
	// ID identifies the lock to terraform force-unlock.
	ID        string `json:"id"`
	Who       string `json:"who,omitempty"`
	Operation string `json:"operation,omitempty"`
	Created   string `json:"created,omitempty"`
	// OwnRun reports whether a run of the workspace holds the lock.
	OwnRun bool `json:"ownRun"`
	// Holder is the liveness of the holder. It is known only for own runs.
	Holder terraform.Liveness `json:"holder"`
	// Where describes the process or pod of the holder.
	Where string `json:"where,omitempty"`
}

// FindLock returns the lock of a workspace's state, or nil if the state is not
// locked.
func FindLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	lock, err := stateLock(ctx, c, apply)
	if err == nil && lock == nil {
		lock, err = reportedLock(ctx, c, apply)
	}
	if err != nil || lock == nil {
		return nil, err
	}
	lock.OwnRun = isRunOf(apply.Name, lock.ID)
	lock.Holder = terraform.LivenessUnknown
	if lock.OwnRun {
		err = lock.observeHolder(ctx, c, apply.Namespace)
	}
	return lock, err
}

// isRunOf reports whether an ID is that of a run of the workspace.
func isRunOf(workspace, id string) bool {
	number, err := record.RunNumber(id)
	return err == nil && number > 0 && id == record.NewRunID(workspace, number)
}

// stateLock returns the lock of a state in Kubernetes, which is a Lease.
func stateLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	backend := terraform.Backend{SecretSuffix: template.StateSuffix(apply.Name)}
	var lease coordinationv1.Lease
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: backend.LeaseName()}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the lock: %w", err)
	}
	return lockOf(&lease, apply.Status.Run), nil
}

// lockOf returns the lock that a Lease describes. Without a holder, a run in
// progress counts as the holder: it is about to take the lock, or has it in
// another backend.
func lockOf(lease *coordinationv1.Lease, run *infrav1.RunStatus) *Lock {
	if lock := LeaseLock(lease); lock != nil {
		return lock
	}
	if run != nil {
		return &Lock{ID: run.ID, Operation: string(run.Operation)}
	}
	return nil
}

// LeaseLock returns the lock that a Lease describes, without the liveness of its
// holder, or nil if the Lease has no holder.
func LeaseLock(lease *coordinationv1.Lease) *Lock {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" {
		return nil
	}
	var info terraform.LockInfo
	// A lock without a readable description is still a lock.
	_ = json.Unmarshal([]byte(lease.Annotations[record.LockInfoAnnotation]), &info)
	return &Lock{ID: holder, Who: info.Who, Operation: info.Operation, Created: info.Created}
}

// reportedLock returns the lock of a state outside of Kubernetes, as the latest
// run reported it.
func reportedLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	if !failedOnForeignLock(&apply.Status) {
		return nil, nil
	}
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(apply.Status.History[0].ID)}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the run that found the lock: %w", err)
	}
	result, err := record.Result(&secret)
	if err != nil || result == nil || result.Lock == nil {
		return nil, err
	}
	info := result.Lock
	return &Lock{ID: info.ID, Who: info.Who, Operation: info.Operation, Created: info.Created}, nil
}

// failedOnForeignLock reports whether the latest run found a lock in a backend
// other than Kubernetes. In Kubernetes the Lease is the truth: without a holder
// the lock was released since.
func failedOnForeignLock(status *infrav1.WorkspaceTemplateApplyStatus) bool {
	if status.Failure == nil || status.Failure.Reason != infrav1.LockHeldReason || len(status.History) == 0 {
		return false
	}
	return status.State != nil && status.State.Backend != "" && status.State.Backend != terraform.BackendKubernetes
}

// observeHolder sets Holder and Where for a lock that a run holds.
func (l *Lock) observeHolder(ctx context.Context, c client.Reader, namespace string) error {
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: record.SecretName(l.ID)}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		// The record of a run is deleted only after the run has ended.
		l.Holder, l.Where = terraform.LivenessGone, runEnded
		return nil
	case err != nil:
		return fmt.Errorf("reading run %s: %w", l.ID, err)
	}
	l.Holder, l.Where, err = RunLiveness(ctx, c, &secret)
	return err
}

const runEnded = "the run has ended"

// RunLiveness returns the liveness of a run, and a description of its process or
// pod.
func RunLiveness(ctx context.Context, c client.Reader, secret *corev1.Secret) (liveness terraform.Liveness, where string, err error) {
	if record.Finished(secret) {
		return terraform.LivenessGone, runEnded, nil
	}
	identity, err := record.RunIdentity(secret)
	switch {
	case err != nil:
		return terraform.LivenessUnknown, "", err
	case identity == nil:
		return terraform.LivenessPending, "the run has not started", nil
	case identity.PodName == "":
		return processLiveness(identity), fmt.Sprintf("process %d on %s", identity.PID, identity.Host), nil
	}
	where = fmt.Sprintf("pod %s/%s", identity.PodNamespace, identity.PodName)
	var pod corev1.Pod
	err = c.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
	if apierrors.IsForbidden(err) {
		return terraform.LivenessUnknown, where, nil
	}
	liveness, err = identity.PodLiveness(&pod, err)
	return liveness, where, err
}

// processLiveness returns the liveness of a process, which is known only on the
// machine that runs it.
func processLiveness(identity *record.Identity) terraform.Liveness {
	hostname, err := os.Hostname()
	switch {
	case err != nil || hostname != identity.Host:
		return terraform.LivenessUnknown
	case identity.Boot == host.BootID() && identity.Alive():
		return terraform.LivenessRunning
	default:
		return terraform.LivenessGone
	}
}

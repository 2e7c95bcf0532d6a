package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// lockInfoAnnotation is where OpenTofu and Terraform keep who holds the lock.
const lockInfoAnnotation = "app.terraform.io/lock-info"

// Lock is who holds the lock of a workspace's state.
type Lock struct {
	// ID is what breaks the lock.
	ID        string `json:"id"`
	Who       string `json:"who,omitempty"`
	Operation string `json:"operation,omitempty"`
	Created   string `json:"created,omitempty"`
	// OwnRun tells that a run of the workspace holds it.
	OwnRun bool `json:"ownRun"`
	// Holder tells whether the holder lives.
	Holder terraform.Liveness `json:"holder"`
	// Where says in words where the holder is.
	Where string `json:"where,omitempty"`
}

// FindLock returns the lock of a workspace's state, or nil if nobody holds it.
func FindLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	lock, err := stateLock(ctx, c, apply)
	if err == nil && lock == nil {
		lock, err = reportedLock(ctx, c, apply)
	}
	if err != nil || lock == nil {
		return nil, err
	}
	lock.OwnRun = strings.HasPrefix(lock.ID, record.Shorten(apply.Name, 45)+"-r") && runNumber(lock.ID) > 0
	lock.Holder = terraform.LivenessUnknown
	if lock.OwnRun {
		err = lock.observe(ctx, c, apply.Namespace)
	}
	return lock, err
}

// stateLock reads the Lease beside a state in Kubernetes. A run that has begun
// and not ended holds the lock in any case.
func stateLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	backend := terraform.Backend{SecretSuffix: template.StateSuffix(apply.Name)}
	var lease coordinationv1.Lease
	err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: backend.LeaseName()}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the lock: %w", err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		if run := apply.Status.Run; run != nil {
			return &Lock{ID: run.ID, Operation: string(run.Operation)}, nil
		}
		return nil, nil
	}
	var info terraform.LockInfo
	// A lock that says nothing about itself is still a lock.
	_ = json.Unmarshal([]byte(lease.Annotations[lockInfoAnnotation]), &info)
	return &Lock{ID: *lease.Spec.HolderIdentity, Who: info.Who, Operation: info.Operation, Created: info.Created}, nil
}

// reportedLock is the lock of a state elsewhere, as the latest run ran into it.
func reportedLock(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (*Lock, error) {
	failure := apply.Status.Failure
	if failure == nil || failure.Reason != infrav1.LockHeldReason || len(apply.Status.History) == 0 {
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
	if apply.Status.State == nil || apply.Status.State.Backend == terraform.BackendKubernetes || apply.Status.State.Backend == "" {
		// The Lease would tell: it has been given back since.
		return nil, nil
	}
	return &Lock{ID: info.ID, Who: info.Who, Operation: info.Operation, Created: info.Created}, nil
}

// observe tells whether the run that holds the lock lives.
func (l *Lock) observe(ctx context.Context, c client.Reader, namespace string) error {
	var secret corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: record.SecretName(l.ID)}, &secret)
	switch {
	case apierrors.IsNotFound(err) || err == nil && record.Finished(&secret):
		// A record goes only after its run has ended.
		l.Holder, l.Where = terraform.LivenessGone, "the run has ended"
		return nil
	case err != nil:
		return fmt.Errorf("reading run %s: %w", l.ID, err)
	}
	identity, err := record.RunIdentity(&secret)
	switch {
	case err != nil:
		return err
	case identity == nil:
		l.Holder, l.Where = terraform.LivenessPending, "the run is about to begin"
		return nil
	case identity.PodName != "":
		var pod corev1.Pod
		l.Where = fmt.Sprintf("pod %s/%s", identity.PodNamespace, identity.PodName)
		err := c.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
		if apierrors.IsForbidden(err) {
			return nil
		}
		l.Holder, err = identity.PodLiveness(&pod, err)
		return err
	}
	l.Where = fmt.Sprintf("process %d on %s", identity.PID, identity.Host)
	l.Holder = processLiveness(identity)
	return nil
}

// processLiveness tells whether a process lives; only its own machine knows.
func processLiveness(identity *record.Identity) terraform.Liveness {
	host, err := os.Hostname()
	switch {
	case err != nil || host != identity.Host:
		return terraform.LivenessUnknown
	case identity.Boot == record.BootID() && identity.Alive():
		return terraform.LivenessRunning
	default:
		return terraform.LivenessGone
	}
}

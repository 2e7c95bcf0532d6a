package doctor

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
)

const (
	// lockPrefix begins the names of the Leases that lock states.
	lockPrefix = "lock-tfstate-"
	// lockInfo is where a lock tells who holds it.
	lockInfo = "app.terraform.io/lock-info"
)

// locks looks for locks whose holder is gone.
func (d *Doctor) locks(ctx context.Context) ([]Result, error) {
	var leases coordinationv1.LeaseList
	if err := d.list(ctx, &leases); err != nil {
		return nil, err
	}
	var found []Result
	held := 0
	for i := range leases.Items {
		lease := &leases.Items[i]
		holder := lease.Spec.HolderIdentity
		if !strings.HasPrefix(lease.Name, lockPrefix) || holder == nil || *holder == "" {
			continue
		}
		held++
		result, err := d.lock(ctx, lease, *holder)
		if err != nil {
			return nil, err
		}
		if result != nil {
			found = append(found, *result)
		}
	}
	return orFine(found, "%d locks are held, all by runs that go on", held), nil
}

func (d *Doctor) lock(ctx context.Context, lease *coordinationv1.Lease, holder string) (*Result, error) {
	result := &Result{Status: Fail, Object: nameOf("Lease", lease), Mend: breakLock(lease, holder)}
	var secret corev1.Secret
	err := d.Client.Get(ctx, client.ObjectKey{Namespace: lease.Namespace, Name: record.SecretName(holder)}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading run %s: %w", holder, err)
	}
	if err != nil {
		info := terraform.LockInfo{Who: "somebody"}
		// A lock that says nothing about itself is still a lock.
		_ = json.Unmarshal([]byte(lease.Annotations[lockInfo]), &info)
		if strings.HasPrefix(info.Who, "capt/") {
			result.Message = fmt.Sprintf("the state is locked by run %s, which is no longer known", holder)
			return result, nil
		}
		result.Status = Warn
		result.Message = fmt.Sprintf("the state is locked by %s since %s, not by a run", info.Who, info.Created)
		return result, nil
	}
	gone, err := d.gone(ctx, &secret)
	if err != nil || gone == "" {
		return nil, err
	}
	result.Message = fmt.Sprintf("the state is locked by run %s, %s", holder, gone)
	return result, nil
}

// gone says how it is known that a run no longer goes on; it is empty when that
// is not known.
func (d *Doctor) gone(ctx context.Context, secret *corev1.Secret) (string, error) {
	if record.Finished(secret) {
		return "which has ended", nil
	}
	identity, err := record.RunIdentity(secret)
	if err != nil || identity == nil {
		return "", err
	}
	if identity.PodName != "" {
		var pod corev1.Pod
		err := d.Client.Get(ctx, client.ObjectKey{Namespace: identity.PodNamespace, Name: identity.PodName}, &pod)
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		liveness, err := identity.PodLiveness(&pod, err)
		if err != nil || liveness != terraform.LivenessGone {
			return "", err
		}
		return fmt.Sprintf("whose pod %s/%s is gone", identity.PodNamespace, identity.PodName), nil
	}
	// Nothing is known of a process elsewhere.
	host, err := os.Hostname()
	if err == nil && host == identity.Host && (identity.Boot != record.BootID() || !identity.Alive()) {
		return "whose process has ended", nil
	}
	return "", nil
}

// breakLock is the command that has CAPT break a lock, which it refuses while
// the holder lives.
func breakLock(lease *coordinationv1.Lease, holder string) string {
	workspace := lease.Labels[infrav1.WorkspaceLabel]
	if workspace == "" {
		workspace = "WORKSPACE"
	}
	return fmt.Sprintf("kubectl annotate workspacetemplateapply -n %s %s %s=%s --overwrite", lease.Namespace, workspace, infrav1.ForceUnlockAnnotation, holder)
}

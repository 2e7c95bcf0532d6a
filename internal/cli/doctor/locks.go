package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// lockPrefix starts the names of the Leases that lock states.
const lockPrefix = "lock-tfstate-"

// locks reports locks whose holder is not running.
func (d *Doctor) locks(ctx context.Context) ([]Result, error) {
	var leases coordinationv1.LeaseList
	if err := d.list(ctx, &leases); err != nil {
		return nil, err
	}
	var problems []Result
	held := 0
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !strings.HasPrefix(lease.Name, lockPrefix) || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			continue
		}
		held++
		message, status, err := d.lockProblem(ctx, lease)
		if err != nil {
			return nil, err
		}
		if message != "" {
			problems = append(problems, Result{Status: status, Object: objectName("Lease", lease), Message: message, Fix: unlockCommand(lease)})
		}
	}
	return orOK(problems, "%s held, all by running runs", text.Count(held, "lock")), nil
}

// lockProblem returns the problem of a held lock. The message is empty if a run
// holds the lock that is running, or that may be.
func (d *Doctor) lockProblem(ctx context.Context, lease *coordinationv1.Lease) (message string, status Status, err error) {
	holder := *lease.Spec.HolderIdentity
	var secret corev1.Secret
	err = d.Client.Get(ctx, client.ObjectKey{Namespace: lease.Namespace, Name: record.SecretName(holder)}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return "", "", fmt.Errorf("reading run %s: %w", holder, err)
	}
	if err != nil {
		message, status = unknownHolder(operate.LeaseLock(lease))
		return message, status, nil
	}
	liveness, where, err := operate.RunLiveness(ctx, d.Client, &secret)
	if err != nil || liveness != terraform.LivenessGone {
		return "", "", err
	}
	return fmt.Sprintf("state is locked by run %s, which is not running (%s)", holder, where), Fail, nil
}

// unknownHolder returns the problem of a lock whose holder has no record: a run of
// which the record was deleted, or a user.
func unknownHolder(lock *operate.Lock) (string, Status) {
	if strings.HasPrefix(lock.Who, "capt/") {
		return fmt.Sprintf("state is locked by run %s, which does not exist any more", lock.ID), Fail
	}
	message := "state is locked by " + cmp.Or(lock.Who, "an unknown user")
	if lock.Created != "" {
		message += " since " + lock.Created
	}
	return message + ", not by a run", Warn
}

// unlockCommand returns the command that breaks a lock. It refuses while the holder is
// running, and asks before.
func unlockCommand(lease *coordinationv1.Lease) string {
	workspace := cmp.Or(lease.Labels[infrav1.WorkspaceLabel], "WORKSPACE")
	return fmt.Sprintf("captctl unlock -n %s %s", lease.Namespace, workspace)
}

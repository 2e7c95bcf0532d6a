package workspacenotification

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// minBackoff and maxBackoff limit the time between two attempts.
	minBackoff, maxBackoff = 15 * time.Second, 10 * time.Minute
	// maxBatch is how many messages are sent before the status is written. After a crash
	// they are sent again.
	maxBatch = 10
	// pauseBetween is the time between two batches, or until another notification of the
	// namespace is tried again.
	pauseBetween = 2 * time.Second
)

// deliver sends the pending messages, the oldest first. After a failure it waits.
func (r *Reconciler) deliver(ctx context.Context, s *scope) error {
	if len(s.pending) == 0 {
		return nil
	}
	if wait := s.backoff(r.Now()); wait > 0 {
		return s.waitAfterFailure(wait)
	}
	if _, busy := r.sending.LoadOrStore(s.notification.Namespace, true); busy {
		return fault.WaitFor(pauseBetween, infrav1.DeliveringReason, "Other messages of this namespace are sent first")
	}
	defer r.sending.Delete(s.notification.Namespace)
	started := r.Now()
	for i, m := range s.pending {
		if i == maxBatch || r.Now().Sub(started) > sendTimeout {
			return fault.WaitFor(pauseBetween, infrav1.DeliveringReason, "%d messages are still to be sent", len(s.pending)-i)
		}
		if err := r.deliverOne(ctx, s, m); err != nil {
			return err
		}
	}
	return nil
}

// deliverOne sends a message and records the result.
func (r *Reconciler) deliverOne(ctx context.Context, s *scope, m message) error {
	status := &s.notification.Status
	err := r.send(ctx, s.destination, s.notification.Spec.Format, m)
	now := metav1.NewTime(r.Now())
	switch {
	case err == nil:
		status.LastDelivery = &infrav1.NotificationDelivery{At: now, Event: m.Event, Workspace: m.Workspace.Name, Addon: m.Addon.Name}
		if status.LastFailure != nil {
			status.LastFailure.Attempts = 0
		}
	case errors.Is(err, errRefused):
		status.LastFailure = &infrav1.NotificationFailure{At: now, Message: err.Error(), SecretVersion: s.secret.ResourceVersion}
	default:
		var attempts int32 = 1
		if status.LastFailure != nil {
			attempts += status.LastFailure.Attempts
		}
		status.LastFailure = &infrav1.NotificationFailure{At: now, Message: err.Error(), Attempts: attempts, SecretVersion: s.secret.ResourceVersion}
		if busy, found := errors.AsType[*busyError](err); found {
			status.LastFailure.RetryAt = new(metav1.NewTime(now.Add(busy.after)))
		}
		return s.waitAfterFailure(s.backoff(now.Time))
	}
	settle(status, m.mark(), now.Time)
	return nil
}

// backoff returns how long to wait after failures with the present Secret.
func (s *scope) backoff(now time.Time) time.Duration {
	failure := s.notification.Status.LastFailure
	if failure == nil || failure.Attempts == 0 || failure.SecretVersion != s.secret.ResourceVersion {
		return 0
	}
	return nextAttempt(failure).Sub(now)
}

// nextAttempt returns when a message is sent again: after the backoff, and not before the
// destination wants it.
func nextAttempt(failure *infrav1.NotificationFailure) time.Time {
	next := failure.At.Add(reconcile.Backoff(minBackoff, maxBackoff, failure.Attempts-1))
	if wanted := failure.RetryAt; wanted != nil && wanted.After(next) {
		return wanted.Time
	}
	return next
}

func (s *scope) waitAfterFailure(wait time.Duration) error {
	failure := s.notification.Status.LastFailure
	return fault.WaitFor(wait, infrav1.DeliveryFailedReason, "Attempt %d failed: %s. The next attempt is at %s", failure.Attempts, failure.Message, nextAttempt(failure).UTC().Format(time.RFC3339))
}

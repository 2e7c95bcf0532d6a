package captaddon

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	// defaultTimeout is how long an add-on may take to become ready.
	defaultTimeout = 15 * time.Minute
	// settleTime is how long applied objects may be missing in the caches.
	settleTime = 10 * time.Second
)

// problem is why an add-on is not ready although its content was requested.
type problem struct {
	reason, message string
	// drifted reports that an applied object was deleted or changed.
	drifted bool
	// failed reports that the object will not become ready by itself.
	failed bool
}

// Error returns the message.
func (p *problem) Error() string { return p.message }

// retry handles a problem of a cluster, and returns other errors.
func (r *Reconciler) retry(ctx context.Context, s *scope, in *installation, err error) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	apply, result := s.decideRetry(in, *p)
	if apply {
		in.current.Attempts++
		if err := r.request(ctx, s, in, render.Round(in.secret)+1); err != nil {
			return err
		}
	}
	return result
}

// decideRetry decides whether to apply the content of a cluster once more, and
// returns the fault to report. Drifted objects are applied at once, failed ones
// after the backoff of the retry policy, and others after the timeout.
func (s *scope) decideRetry(in *installation, p problem) (apply bool, result error) {
	requestedAt := render.RequestedAt(in.secret)
	sinceRequest := s.now.Sub(requestedAt)
	unreadySince := in.unreadySince(s.now, requestedAt)
	in.current.UnreadySince = metav1.NewTime(unreadySince.Truncate(time.Second))
	timeout := s.timeout()
	unready := s.now.Sub(unreadySince)
	switch {
	case (p.drifted || p.reason == addonsv1.ApplyFailedReason) && sinceRequest < settleTime:
		// Caches lag, and Cluster API retries objects that precede their CRD.
		return false, fault.WaitFor(settleTime-sinceRequest, addonsv1.ApplyingReason, "Applied recently, waiting for the caches: %s", p.message)
	case p.drifted && s.addon.Spec.Strategy == addonsv1.StrategyApplyOnce:
		return false, fault.Wait(addonsv1.NotReadyReason, "%s; the strategy ApplyOnce prevents a reapply", p.message)
	case !p.drifted && !p.failed && unready < timeout:
		return false, fault.WaitFor(timeout-unready, p.reason, "%s", p.message)
	case !p.drifted && !p.failed:
		p.reason, p.message = addonsv1.TimedOutReason, fmt.Sprintf("Not ready after %s: %s", timeout, p.message)
	}
	attempts := in.current.Attempts
	wait, allowed := backoff(s.addon.Spec.Retry, attempts)
	if p.drifted && attempts == 0 {
		wait, allowed = 0, true
	}
	if !allowed {
		return false, fault.Stall(p.reason, "%s; no retries left after %d attempts: change the add-on, or set the annotation %s to a new value",
			p.message, attempts, addonsv1.TriggerAnnotation)
	}
	if wait > sinceRequest {
		return false, fault.WaitFor(wait-sinceRequest, p.reason, "%s; retrying in %s (attempt %d)", p.message, wait, attempts+1)
	}
	return true, fault.WaitFor(settleTime, p.reason, "%s; reapplied", p.message)
}

// timeout returns how long the add-on may take to become ready.
func (s *scope) timeout() time.Duration {
	if s.addon.Spec.Timeout != nil {
		return s.addon.Spec.Timeout.Duration
	}
	return defaultTimeout
}

// unreadySince returns the start of the timeout: when the add-on was first found
// not ready, whatever the reasons since then, or the last request.
func (in *installation) unreadySince(now, requestedAt time.Time) time.Time {
	since := now
	if !in.previous.UnreadySince.IsZero() {
		since = in.previous.UnreadySince.Time
	}
	if requestedAt.After(since) {
		since = requestedAt
	}
	return since
}

// backoff returns the time to wait after a number of failures in a row. It returns
// false if the policy allows no further attempt.
func backoff(policy *infrav1.RetryPolicy, attempts int32) (time.Duration, bool) {
	minimum, maximum := infrav1.DefaultMinBackoff, infrav1.DefaultMaxBackoff
	if policy != nil {
		if policy.Limit != nil && attempts >= *policy.Limit {
			return 0, false
		}
		if policy.MinBackoff != nil {
			minimum = policy.MinBackoff.Duration
		}
		if policy.MaxBackoff != nil {
			maximum = policy.MaxBackoff.Duration
		}
	}
	return reconcile.Backoff(minimum, maximum, attempts), true
}

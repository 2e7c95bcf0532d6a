package captaddon

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// requestedAgo returns a rendered Secret that was written a while ago.
func requestedAgo(d time.Duration) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		addonsv1.RequestedAtAnnotation: now.Add(-d).Format(time.RFC3339),
	}}}
}

func TestDecideRetry(t *testing.T) {
	unready := problem{reason: addonsv1.NotReadyReason, message: "no pods"}
	failed := problem{reason: addonsv1.ReleaseStalledReason, message: "Flux has given up", failed: true}
	rejected := problem{reason: addonsv1.ApplyFailedReason, message: "rejected", failed: true}
	drifted := problem{reason: addonsv1.DriftedReason, message: "Secret a was changed", drifted: true}
	limit := &infrav1.RetryPolicy{Limit: new(int32(2))}
	for name, test := range map[string]struct {
		problem   problem
		spec      addonsv1.CAPTAddonSpec
		requested time.Duration
		since     time.Duration
		attempts  int32

		apply   bool
		reason  string
		message string
		after   time.Duration
		stalled bool
	}{
		"not ready yet": {
			problem: unready, requested: time.Minute, since: time.Minute,
			reason: addonsv1.NotReadyReason, message: "no pods", after: 14 * time.Minute,
		},
		"own timeout": {
			problem: unready, spec: addonsv1.CAPTAddonSpec{Timeout: &metav1.Duration{Duration: 5 * time.Minute}}, requested: time.Minute, since: time.Minute,
			reason: addonsv1.NotReadyReason, message: "no pods", after: 4 * time.Minute,
		},
		"timed out": {
			problem: unready, requested: 15 * time.Minute, since: 15 * time.Minute,
			apply: true, reason: addonsv1.TimedOutReason, message: "Not ready after 15m0s: no pods; reapplied", after: settleTime,
		},
		"timed out in backoff": {
			problem: unready, requested: 15 * time.Minute, since: 15 * time.Minute, attempts: 9,
			apply: true, reason: addonsv1.TimedOutReason, message: "Not ready after 15m0s: no pods; reapplied", after: settleTime,
		},
		"failed, first backoff": {
			problem: failed, requested: 12 * time.Second, since: 12 * time.Second,
			reason: addonsv1.ReleaseStalledReason, message: "Flux has given up; retrying in 15s (attempt 1)", after: 3 * time.Second,
		},
		"failed, backoff is over": {
			problem: failed, requested: 15 * time.Second, since: 15 * time.Second,
			apply: true, reason: addonsv1.ReleaseStalledReason, message: "Flux has given up; reapplied", after: settleTime,
		},
		"failed, second backoff": {
			problem: failed, requested: 20 * time.Second, since: 20 * time.Second, attempts: 1,
			reason: addonsv1.ReleaseStalledReason, message: "Flux has given up; retrying in 30s (attempt 2)", after: 10 * time.Second,
		},
		"failed, no retries left": {
			problem: failed, spec: addonsv1.CAPTAddonSpec{Retry: limit}, requested: time.Hour, since: time.Hour, attempts: 2,
			reason: addonsv1.ReleaseStalledReason, stalled: true,
			message: "Flux has given up; no retries left after 2 attempts: change the add-on, or set the annotation capt.appthrust.io/trigger to a new value",
		},
		"rejected just now": {
			problem: rejected, requested: 4 * time.Second, since: 4 * time.Second,
			reason: addonsv1.ApplyingReason, message: "Applied recently, waiting for the caches: rejected", after: 6 * time.Second,
		},
		"rejected": {
			problem: rejected, requested: 10 * time.Second, since: 10 * time.Second,
			reason: addonsv1.ApplyFailedReason, message: "rejected; retrying in 15s (attempt 1)", after: 5 * time.Second,
		},
		"failed just now": {
			problem: failed, requested: 4 * time.Second, since: 4 * time.Second,
			reason: addonsv1.ReleaseStalledReason, message: "Flux has given up; retrying in 15s (attempt 1)", after: 11 * time.Second,
		},
		"drifted just now": {
			problem: drifted, requested: 9 * time.Second, since: 9 * time.Second,
			reason: addonsv1.ApplyingReason, message: "Applied recently, waiting for the caches: Secret a was changed", after: time.Second,
		},
		"drifted": {
			problem: drifted, requested: 10 * time.Second, since: 10 * time.Second,
			apply: true, reason: addonsv1.DriftedReason, message: "Secret a was changed; reapplied", after: settleTime,
		},
		"drifted again": {
			problem: drifted, requested: 10 * time.Second, since: 10 * time.Second, attempts: 1,
			reason: addonsv1.DriftedReason, message: "Secret a was changed; retrying in 30s (attempt 2)", after: 20 * time.Second,
		},
		"drifted, no retries allowed": {
			problem: drifted, spec: addonsv1.CAPTAddonSpec{Retry: &infrav1.RetryPolicy{Limit: new(int32(0))}}, requested: time.Hour, since: time.Hour,
			apply: true, reason: addonsv1.DriftedReason, message: "Secret a was changed; reapplied", after: settleTime,
		},
		"drifted, applied once": {
			problem: drifted, spec: addonsv1.CAPTAddonSpec{Strategy: addonsv1.StrategyApplyOnce}, requested: time.Hour, since: time.Hour,
			reason: addonsv1.NotReadyReason, message: "Secret a was changed; the strategy ApplyOnce prevents a reapply",
		},
		"failed, applied once": {
			problem: failed, spec: addonsv1.CAPTAddonSpec{Strategy: addonsv1.StrategyApplyOnce}, requested: time.Hour, since: time.Hour,
			apply: true, reason: addonsv1.ReleaseStalledReason, message: "Flux has given up; reapplied", after: settleTime,
		},
		"failed and drifted long ago": {
			problem: problem{reason: addonsv1.DriftedReason, message: "both", drifted: true, failed: true}, requested: time.Hour, since: time.Hour,
			apply: true, reason: addonsv1.DriftedReason, message: "both; reapplied", after: settleTime,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, in := &scope{addon: &addonsv1.CAPTAddon{Spec: test.spec}, now: now}, selected("a")
			in.secret, in.previous.UnreadySince, in.current.Attempts = requestedAgo(test.requested), ago(test.since), test.attempts
			apply, err := s.decideRetry(in, test.problem)
			g.Expect(apply).To(Equal(test.apply))
			if stalled, found := fault.AsStalled(err); test.stalled {
				g.Expect(found).To(BeTrue(), "%v", err)
				g.Expect(stalled.Reason).To(Equal(test.reason))
				g.Expect(stalled.Message()).To(Equal(test.message))
				return
			}
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue(), "%v", err)
			g.Expect(waiting.Reason).To(Equal(test.reason))
			g.Expect(waiting.Message()).To(Equal(test.message))
			g.Expect(waiting.RetryAfter).To(Equal(test.after))
		})
	}
}

// The timeout runs while the reasons change, and restarts with each request.
func TestDecideRetry_countsTheTimeoutAcrossReasons(t *testing.T) {
	for name, test := range map[string]struct {
		previous  addonsv1.ClusterAddonStatus
		requested time.Duration
		left      time.Duration
		since     metav1.Time
	}{
		"ready until now": {
			previous: addonsv1.ClusterAddonStatus{Ready: new(true), Since: ago(time.Hour)}, requested: 2 * time.Hour,
			left: 15 * time.Minute, since: ago(0),
		},
		"never ready": {
			previous: addonsv1.ClusterAddonStatus{Since: ago(time.Minute), UnreadySince: ago(10 * time.Minute)}, requested: 10 * time.Minute,
			left: 5 * time.Minute, since: ago(10 * time.Minute),
		},
		"another reason": {
			previous:  addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyingReason, Since: ago(time.Second), UnreadySince: ago(14 * time.Minute)},
			requested: time.Hour, left: time.Minute, since: ago(14 * time.Minute),
		},
		"requested meanwhile": {
			previous: addonsv1.ClusterAddonStatus{Since: ago(time.Hour), UnreadySince: ago(time.Hour)}, requested: 5 * time.Minute,
			left: 10 * time.Minute, since: ago(5 * time.Minute),
		},
		"waited for the control plane meanwhile": {
			previous:  addonsv1.ClusterAddonStatus{Reason: addonsv1.WaitingForControlPlaneReason, Since: ago(time.Hour)},
			requested: 2 * time.Hour, left: 15 * time.Minute, since: ago(0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{addon: &addonsv1.CAPTAddon{}, now: now}
			in := &installation{previous: test.previous, current: test.previous, secret: requestedAgo(test.requested)}
			err := (&Reconciler{}).retry(t.Context(), s, in, &problem{reason: addonsv1.NotReadyReason, message: "it is not ready"})
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue(), "%v", err)
			g.Expect(waiting.RetryAfter).To(Equal(test.left))
			g.Expect(in.current.UnreadySince.Time).To(BeTemporally("==", test.since.Time))
		})
	}
}

// A user deleted the rendered Secret too, and it is not created again.
func TestRetry_appliesOnceWithoutARenderedSecret(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: &addonsv1.CAPTAddon{Spec: addonsv1.CAPTAddonSpec{Strategy: addonsv1.StrategyApplyOnce}}, now: now}
	err := (&Reconciler{}).retry(t.Context(), s, &installation{}, &problem{reason: addonsv1.DriftedReason, message: "ConfigMap a does not exist", drifted: true})
	waiting, found := fault.AsWaiting(err)
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("ConfigMap a does not exist; the strategy ApplyOnce prevents a reapply"))
}

func TestRetry_returnsOtherErrors(t *testing.T) {
	g := NewWithT(t)
	other := errors.New("connection refused")
	g.Expect((&Reconciler{}).retry(t.Context(), &scope{}, &installation{}, other)).To(MatchError(other))
	wait := fault.Wait("R", "w")
	g.Expect((&Reconciler{}).retry(t.Context(), &scope{}, &installation{}, wait)).To(MatchError(wait))
}

func TestBackoff(t *testing.T) {
	seconds := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Second} }
	for name, test := range map[string]struct {
		policy   *infrav1.RetryPolicy
		attempts int32
		wait     time.Duration
		retry    bool
	}{
		"first":                         {nil, 0, 15 * time.Second, true},
		"at the maximum":                {nil, 6, 10 * time.Minute, true},
		"empty policy":                  {&infrav1.RetryPolicy{}, 1, 30 * time.Second, true},
		"below the limit":               {&infrav1.RetryPolicy{Limit: new(int32(2))}, 1, 30 * time.Second, true},
		"at the limit":                  {&infrav1.RetryPolicy{Limit: new(int32(2))}, 2, 0, false},
		"above the limit":               {&infrav1.RetryPolicy{Limit: new(int32(2))}, 3, 0, false},
		"no retries":                    {&infrav1.RetryPolicy{Limit: new(int32(0))}, 0, 0, false},
		"own minimum":                   {&infrav1.RetryPolicy{MinBackoff: seconds(1)}, 2, 4 * time.Second, true},
		"own maximum":                   {&infrav1.RetryPolicy{MaxBackoff: seconds(20)}, 1, 20 * time.Second, true},
		"own minimum above the default": {&infrav1.RetryPolicy{MinBackoff: seconds(1200)}, 0, 10 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			wait, retry := backoff(test.policy, test.attempts)
			g.Expect(wait).To(Equal(test.wait))
			g.Expect(retry).To(Equal(test.retry))
		})
	}
}

package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

func TestUpdateMetrics_countsReadyAndFailingClusters(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("metrics")}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(5)), new(int32(3))
	s.installations = []*installation{
		{name: "failing", current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason}},
		{name: "waiting", current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyingReason}},
		{name: "removed", current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason}, removed: true},
	}
	updateMetrics(s)
	g.Expect(testutil.ToFloat64(clusters.WithLabelValues("fleet", "metrics", "true"))).To(BeEquivalentTo(3))
	g.Expect(testutil.ToFloat64(clusters.WithLabelValues("fleet", "metrics", "false"))).To(BeEquivalentTo(2))
	g.Expect(testutil.CollectAndCount(failing)).To(Equal(1))
	g.Expect(testutil.ToFloat64(failing.WithLabelValues("fleet", "metrics", "failing", addonsv1.ApplyFailedReason))).To(BeEquivalentTo(1))

	s.installations = nil
	updateMetrics(s)
	g.Expect(testutil.CollectAndCount(failing)).To(BeZero(), "a cluster that no longer fails is not reported")
}

// An add-on whose pods never become ready is reapplied at once when its timeout ends. It fails
// until it is ready, and not only for a moment each time.
func TestUpdateMetrics_anAddonThatTimesOutAgainAndAgainFails(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("slow"), now: now}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(1)), new(int32(0))
	in := &installation{name: "c", secret: requestedAgo(0)}
	s.installations = []*installation{in}
	t.Cleanup(func() { deleteMetrics(client.ObjectKeyFromObject(s.addon)) })
	timedOut := func() bool { return failing.DeleteLabelValues("fleet", "slow", "c", addonsv1.TimedOutReason) }
	for minute := range 61 {
		s.now, in.previous = now.Add(time.Duration(minute)*time.Minute), in.current
		apply, err := s.decideRetry(in, problem{reason: addonsv1.NotReadyReason, message: "no pods"})
		if apply {
			in.current.Attempts++
			in.secret.Annotations[addonsv1.RequestedAtAnnotation] = s.now.Format(time.RFC3339)
		}
		g.Expect(in.reportFault(s, err)).To(Succeed())
		updateMetrics(s)
		g.Expect(timedOut()).To(Equal(minute >= 15), "after %d minutes: %s", minute, in.current.Reason)
	}
	in.current.Reason, in.current.UnreadySince = addonsv1.ApplyingReason, metav1.NewTime(now)
	updateMetrics(s)
	g.Expect(timedOut()).To(BeFalse(), "it has just been applied, for another cause")
	in.current = addonsv1.ClusterAddonStatus{Ready: new(true)}
	updateMetrics(s)
	g.Expect(timedOut()).To(BeFalse())
}

// New clusters and a paced rollout keep some clusters unready, but none of them for long.
func TestUpdateMetrics_oldestUnreadyCluster(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("aged")}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(5)), new(int32(1))
	since := func(name, reason string, minute int64, ready bool) *installation {
		return &installation{name: name, current: addonsv1.ClusterAddonStatus{Reason: reason, Ready: &ready, Since: metav1.NewTime(time.Unix(60*minute, 0))}}
	}
	gone := since("gone", addonsv1.NotReadyReason, 1, false)
	gone.removed = true
	s.installations = []*installation{
		since("ready", "Ready", 1, true), since("paused", addonsv1.ClusterPausedReason, 1, false), since("queued", addonsv1.WaitingForRolloutReason, 1, false), gone,
		since("new", addonsv1.WaitingForControlPlaneReason, 9, false), since("old", addonsv1.WaitingForDependencyReason, 5, false),
	}
	updateMetrics(s)
	g.Expect(testutil.ToFloat64(unready.WithLabelValues("fleet", "aged"))).To(BeEquivalentTo(300))
	s.installations = s.installations[:4]
	updateMetrics(s)
	g.Expect(unready.DeleteLabelValues("fleet", "aged")).To(BeFalse(), "no cluster waits")
}

// clusterctl move and users remove the finalizer, so that no step runs.
func TestGone_deletesMetrics(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("moved"), now: now}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(1)), new(int32(0))
	s.installations = []*installation{{name: "c", current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason, Since: metav1.NewTime(now)}}}
	updateMetrics(s)
	countFailure(s, s.installations[0])
	key := client.ObjectKeyFromObject(s.addon)
	r := &Reconciler{renderings: map[client.ObjectKey]map[string]*rendering{key: {}}}
	r.frame().Gone(key)
	g.Expect(r.renderings).To(BeEmpty())
	g.Expect(clusters.DeleteLabelValues("fleet", "moved", "false")).To(BeFalse())
	g.Expect(failing.DeleteLabelValues("fleet", "moved", "c", addonsv1.ApplyFailedReason)).To(BeFalse())
	g.Expect(failuresTotal.DeleteLabelValues("fleet", "moved", addonsv1.ApplyFailedReason)).To(BeFalse())
	g.Expect(unready.DeleteLabelValues("fleet", "moved")).To(BeFalse())
}

package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

func TestUpdateMetrics_countsReadyAndFailingClusters(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("metrics")}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(5)), new(int32(3))
	s.installations = []*installation{
		{name: "failing", selected: true, current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason}},
		{name: "waiting", selected: true, current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyingReason}},
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
	in := &installation{name: "c", secret: requestedAgo(0), selected: true}
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
	t.Cleanup(func() { deleteMetrics(client.ObjectKeyFromObject(s.addon)) })
	reported := func(name, reason string, minute int64, ready bool) *installation {
		in := &installation{name: name, selected: true}
		in.report(&scope{now: time.Unix(60*minute, 0)}, ready, reason, "")
		return in
	}
	gone := reported("gone", addonsv1.NotReadyReason, 1, false)
	gone.removed = true
	s.installations = []*installation{
		reported("ready", "Ready", 1, true), reported("paused", addonsv1.ClusterPausedReason, 1, false), reported("queued", addonsv1.WaitingForRolloutReason, 1, false), gone,
		reported("new", addonsv1.WaitingForControlPlaneReason, 9, false), reported("old", addonsv1.WaitingForDependencyReason, 5, false),
	}
	updateMetrics(s)
	g.Expect(testutil.ToFloat64(unready.WithLabelValues("fleet", "aged"))).To(BeEquivalentTo(300))
	s.installations = s.installations[:4]
	updateMetrics(s)
	g.Expect(unready.DeleteLabelValues("fleet", "aged")).To(BeFalse(), "no cluster waits")
}

// The deletion of a cluster waits for its nodes, and has an alert of its own. That an add-on was
// not ready is a usual cause to delete the cluster.
func TestUpdateMetrics_aRemovalIsNoFailure(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("leaving"), now: now}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(0)), new(int32(0))
	t.Cleanup(func() { deleteMetrics(client.ObjectKeyFromObject(s.addon)) })
	since := metav1.NewTime(now.Add(-time.Hour))
	in := &installation{name: "c", previous: addonsv1.ClusterAddonStatus{
		Reason: addonsv1.TimedOutReason, Attempts: 1, Since: since, UnreadySince: since, WaitingSince: since,
	}}
	in.current = in.previous
	s.installations = []*installation{in}
	for _, reason := range []string{addonsv1.RemovingReason, addonsv1.WaitingForDependentsReason, addonsv1.ApplyFailedReason} {
		in.report(s, false, reason, "")
		updateMetrics(s)
		g.Expect(failing.DeletePartialMatch(prometheus.Labels{"addon": "leaving"})).To(BeZero(), reason)
		g.Expect(unready.DeleteLabelValues("fleet", "leaving")).To(BeFalse(), reason)
		g.Expect(in.current.WaitingSince.IsZero()).To(BeTrue(), reason)
	}
}

// A connection that comes and goes changes the reason again and again.
func TestUpdateMetrics_reasonsThatAlternate(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("flapping")}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(1)), new(int32(0))
	t.Cleanup(func() { deleteMetrics(client.ObjectKeyFromObject(s.addon)) })
	in := &installation{name: "c", selected: true, current: addonsv1.ClusterAddonStatus{AppliedHash: "sha256:a"}}
	s.installations = []*installation{in}
	report := func(minute int, ready bool, reason string) {
		s.now, in.previous = now.Add(time.Duration(minute)*time.Minute), in.current
		in.report(s, ready, reason, "")
		updateMetrics(s)
	}
	waitsSince := func(minute int) {
		t.Helper()
		g.Expect(testutil.ToFloat64(unready.WithLabelValues("fleet", "flapping"))).To(BeEquivalentTo(now.Add(time.Duration(minute)*time.Minute).Unix()), in.current.Reason)
	}
	reasons := []string{addonsv1.WaitingForControlPlaneReason, addonsv1.ApplyingReason, addonsv1.NotReadyReason, addonsv1.ApplyingReason}
	for minute := range 61 {
		report(minute, false, reasons[minute%len(reasons)])
		waitsSince(0)
	}
	report(61, true, clusterv1.ReadyReason)
	g.Expect(unready.DeleteLabelValues("fleet", "flapping")).To(BeFalse(), "it is ready")
	report(62, false, addonsv1.NotReadyReason)
	waitsSince(62)
	report(63, false, addonsv1.ClusterPausedReason)
	g.Expect(unready.DeleteLabelValues("fleet", "flapping")).To(BeFalse(), "it is paused")
	report(64, false, addonsv1.NotReadyReason)
	waitsSince(64)
}

// A new cluster takes a while to be created, and its add-ons take a while after that.
func TestUpdateMetrics_theFirstApplyIsProgress(t *testing.T) {
	g := NewWithT(t)
	in := &installation{name: "c", selected: true}
	report := func(minute int, hash, reason string) time.Duration {
		in.previous = in.current
		in.current.AppliedHash = hash
		in.report(&scope{now: now.Add(time.Duration(minute) * time.Minute)}, false, reason, "")
		return in.current.WaitingSince.Sub(now)
	}
	g.Expect(report(0, "", addonsv1.WaitingForControlPlaneReason)).To(BeZero())
	g.Expect(report(20, "", addonsv1.WaitingForDependencyReason)).To(BeZero())
	g.Expect(report(25, "sha256:a", addonsv1.NotReadyReason)).To(Equal(25 * time.Minute))
	g.Expect(report(30, "sha256:b", addonsv1.ApplyingReason)).To(Equal(25*time.Minute), "other content does not start the time again")
}

// Creating a network, a control plane and nodes takes long enough by itself.
func TestUpdateMetrics_theControlPlaneIsProgress(t *testing.T) {
	g := NewWithT(t)
	in := &installation{name: "c", selected: true, cluster: &clusterv1.Cluster{}}
	initialized := func(status metav1.ConditionStatus, minute int) {
		in.cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: status, LastTransitionTime: metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)),
		}}
	}
	report := func(minute int, hash, reason string) time.Duration {
		in.previous = in.current
		in.current.AppliedHash = hash
		in.report(&scope{now: now.Add(time.Duration(minute) * time.Minute)}, false, reason, "")
		return in.current.WaitingSince.Sub(now)
	}
	initialized(metav1.ConditionFalse, 3)
	g.Expect(report(0, "", addonsv1.WaitingForControlPlaneReason)).To(BeZero())
	g.Expect(report(20, "", addonsv1.WaitingForControlPlaneReason)).To(BeZero())
	initialized(metav1.ConditionTrue, 22)
	g.Expect(report(23, "", addonsv1.WaitingForDependencyReason)).To(Equal(22 * time.Minute))
	g.Expect(report(40, "", addonsv1.WaitingForControlPlaneReason)).To(Equal(22*time.Minute), "a connection that is lost and restored does not count as progress")
	g.Expect(report(50, "sha256:a", addonsv1.NotReadyReason)).To(Equal(50 * time.Minute))
	initialized(metav1.ConditionTrue, 55)
	g.Expect(report(60, "sha256:a", addonsv1.NotReadyReason)).To(Equal(50*time.Minute), "only of a new cluster")
}

// What is not reconciled has no metrics: they would never change again.
func TestReconcile_idleAddonsHaveNoGauges(t *testing.T) {
	tests := map[string]func(*addonsv1.CAPTAddon){
		"paused":        func(a *addonsv1.CAPTAddon) { a.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		"managed-by":    func(a *addonsv1.CAPTAddon) { a.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "x"} },
		"other-manager": func(a *addonsv1.CAPTAddon) { a.Labels = map[string]string{clusterv1.WatchLabel: "other"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{addon: newAddon(name), now: now}
			s.addon.Status.Matched, s.addon.Status.Ready = new(int32(1)), new(int32(0))
			s.addon.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
			change(s.addon)
			s.installations = []*installation{{name: "c", selected: true, current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason, WaitingSince: metav1.NewTime(now)}}}
			updateMetrics(s)
			countFailure(s, s.installations[0])
			t.Cleanup(func() { deleteMetrics(client.ObjectKeyFromObject(s.addon)) })
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(s.addon).WithStatusSubresource(s.addon).Build()
			r := &Reconciler{Client: c, WatchFilter: "mine", Now: func() time.Time { return now }, Recorder: events.NewFakeRecorder(10)}
			_, err := r.frame().Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.addon)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(clusters.DeletePartialMatch(prometheus.Labels{"addon": name})).To(BeZero())
			g.Expect(failing.DeletePartialMatch(prometheus.Labels{"addon": name})).To(BeZero())
			g.Expect(unready.DeletePartialMatch(prometheus.Labels{"addon": name})).To(BeZero())
			g.Expect(failuresTotal.DeletePartialMatch(prometheus.Labels{"addon": name})).To(Equal(1), "a counter stays")
		})
	}
}

// clusterctl move and users remove the finalizer, so that no step runs.
func TestGone_deletesMetrics(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: newAddon("moved"), now: now}
	s.addon.Status.Matched, s.addon.Status.Ready = new(int32(1)), new(int32(0))
	s.installations = []*installation{{name: "c", selected: true, current: addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyFailedReason, WaitingSince: metav1.NewTime(now)}}}
	updateMetrics(s)
	countFailure(s, s.installations[0])
	key := client.ObjectKeyFromObject(s.addon)
	r, other := &Reconciler{}, renderingKey{client.ObjectKey{Namespace: "fleet", Name: "other"}, "c"}
	r.renderings.Store(renderingKey{key, "c"}, &rendering{})
	r.renderings.Store(other, &rendering{})
	r.frame().Gone(key)
	var kept []any
	r.renderings.Range(func(key, _ any) bool { kept = append(kept, key); return true })
	g.Expect(kept).To(ConsistOf(other))
	g.Expect(clusters.DeleteLabelValues("fleet", "moved", "false")).To(BeFalse())
	g.Expect(failing.DeleteLabelValues("fleet", "moved", "c", addonsv1.ApplyFailedReason)).To(BeFalse())
	g.Expect(failuresTotal.DeleteLabelValues("fleet", "moved", addonsv1.ApplyFailedReason)).To(BeFalse())
	g.Expect(unready.DeleteLabelValues("fleet", "moved")).To(BeFalse())
}

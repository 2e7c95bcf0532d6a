package captaddon

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

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

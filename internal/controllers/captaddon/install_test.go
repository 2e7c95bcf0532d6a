package captaddon

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// The timeout keeps running while the reasons change, and restarts with each
// application.
func TestAgain_countsTheTimeoutWhateverTheReasonsAre(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	for name, c := range map[string]struct {
		was   addonsv1.ClusterAddonStatus
		asked time.Duration
		left  time.Duration
		since metav1.Time
	}{
		"it was ready until now": {
			was: addonsv1.ClusterAddonStatus{Ready: new(true), Since: ago(time.Hour)}, asked: 2 * time.Hour,
			left: 15 * time.Minute, since: ago(0),
		},
		"it was asked for and never ready": {
			was: addonsv1.ClusterAddonStatus{Since: ago(time.Minute), UnreadySince: ago(10 * time.Minute)}, asked: 10 * time.Minute,
			left: 5 * time.Minute, since: ago(10 * time.Minute),
		},
		"the reason has just changed": {
			was:   addonsv1.ClusterAddonStatus{Reason: addonsv1.ApplyingReason, Since: ago(time.Second), UnreadySince: ago(14 * time.Minute)},
			asked: time.Hour, left: time.Minute, since: ago(14 * time.Minute),
		},
		"it was applied again meanwhile": {
			was: addonsv1.ClusterAddonStatus{Since: ago(time.Hour), UnreadySince: ago(time.Hour)}, asked: 5 * time.Minute,
			left: 10 * time.Minute, since: ago(5 * time.Minute),
		},
		"something else was waited for meanwhile": {
			was:   addonsv1.ClusterAddonStatus{Reason: addonsv1.WaitingForControlPlaneReason, Since: ago(time.Hour)},
			asked: 2 * time.Hour, left: 15 * time.Minute, since: ago(0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &scope{addon: &addonsv1.CAPTAddon{}, now: now}
			st := &standing{was: c.was, is: c.was, secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				addonsv1.AskedAtAnnotation: now.Add(-c.asked).Format(time.RFC3339),
			}}}}
			err := (&Reconciler{}).again(t.Context(), s, st, &problem{reason: addonsv1.NotReadyReason, message: "it is not ready"})
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue(), "%v", err)
			g.Expect(waiting.RetryAfter).To(Equal(c.left))
			g.Expect(st.is.UnreadySince.Time).To(BeTemporally("==", c.since.Time))
		})
	}
}

func TestSilent_isAClusterThatHasNotAnsweredForAWhile(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		failures int
		answered time.Duration
		says     string
	}{
		"it answers":             {0, time.Second, ""},
		"it is asked seldom":     {0, time.Hour, ""},
		"it has just begun":      {2, 20 * time.Second, ""},
		"it has not for a while": {3, 30 * time.Second, "The cluster has not answered since 2026-11-15T11:59:30Z"},
		"for some time":          {9, time.Minute, "The cluster has not answered since 2026-11-15T11:59:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := silent(clustercache.HealthCheckingState{ConsecutiveFailures: c.failures, LastProbeSuccessTime: now.Add(-c.answered)}, now)
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, found := fault.AsWaiting(err)
			g.Expect(found).To(BeTrue())
			g.Expect(waiting.Message()).To(Equal(c.says))
		})
	}
}

// The rendered Secret was deleted too, and is not created again.
func TestAgain_leavesWhatIsAppliedOnce(t *testing.T) {
	g := NewWithT(t)
	s := &scope{addon: &addonsv1.CAPTAddon{Spec: addonsv1.CAPTAddonSpec{Strategy: addonsv1.StrategyApplyOnce}}, now: time.Now()}
	err := (&Reconciler{}).again(t.Context(), s, &standing{}, &problem{reason: addonsv1.DriftedReason, message: "ConfigMap a is missing", drifted: true})
	waiting, found := fault.AsWaiting(err)
	g.Expect(found).To(BeTrue())
	g.Expect(waiting.Message()).To(Equal("ConfigMap a is missing; strategy ApplyOnce does not bring it back"))
}

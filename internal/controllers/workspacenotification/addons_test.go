package workspacenotification

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func failingAddon(clusters ...addonsv1.ClusterAddonStatus) *addonsv1.CAPTAddon {
	a := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "karpenter", UID: "u"}}
	a.Status.Clusters = clusters
	return a
}

// at returns a time of a minute.
func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))
}

func TestAddonMessages_reportAFailureUntilTheAddonWasReady(t *testing.T) {
	g := NewWithT(t)
	failing := addonsv1.ClusterAddonStatus{Name: "demo", Reason: addonsv1.TimedOutReason, Message: "Not ready after 15m.", Since: at(20), WaitingSince: at(5)}
	messages := addonMessages(failingAddon(
		failing,
		addonsv1.ClusterAddonStatus{Name: "ready", Reason: "Ready", Since: at(1)},
		addonsv1.ClusterAddonStatus{Name: "waiting", Reason: addonsv1.WaitingForDependencyReason, Since: at(1), WaitingSince: at(1)},
		addonsv1.ClusterAddonStatus{Name: "drifted", Reason: addonsv1.DriftedReason, Since: at(1), WaitingSince: at(1)},
	))
	g.Expect(messages).To(HaveLen(1))
	first := messages[0]
	g.Expect(first.Event).To(Equal(infrav1.NotifyAddonFailed))
	g.Expect(first.Time).To(Equal(at(20).Time))
	g.Expect(first.Text).To(Equal("TimedOut: Not ready after 15m. See: captctl addon status karpenter -n team-a"))
	g.Expect(first.Addon).To(Equal(addon{Namespace: "team-a", Name: "karpenter", UID: "u", Cluster: "demo", Reason: "TimedOut"}))

	failing.Reason, failing.Since = addonsv1.ReleaseStalledReason, at(40)
	g.Expect(addonMessages(failingAddon(failing))[0].ID).To(Equal(first.ID), "it has not been ready since")
	failing.WaitingSince = at(50)
	g.Expect(addonMessages(failingAddon(failing))[0].ID).NotTo(Equal(first.ID))
}

func TestEncode_addon(t *testing.T) {
	g := NewWithT(t)
	m := addonMessages(failingAddon(addonsv1.ClusterAddonStatus{Name: "demo", Reason: addonsv1.EmptyReason, Message: "Nothing", Since: at(1), WaitingSince: at(1)}))[0]
	body, _, err := encode(infrav1.NotificationCloudEvents, m)
	g.Expect(err).NotTo(HaveOccurred())
	var sent map[string]any
	g.Expect(json.Unmarshal(body, &sent)).To(Succeed())
	g.Expect(sent).To(HaveKeyWithValue("type", "io.appthrust.capt.addon.failed"))
	g.Expect(sent).To(HaveKeyWithValue("source", "/apis/addons.cluster.x-k8s.io/v1beta1/namespaces/team-a/captaddons/karpenter"))
	g.Expect(sent).To(HaveKeyWithValue("subject", "team-a/karpenter"))
	g.Expect(sent["data"]).To(HaveKeyWithValue("addon", HaveKeyWithValue("cluster", "demo")))
	g.Expect(sent["data"]).NotTo(HaveKey("workspace"))
	g.Expect(slackText(m)).To(HavePrefix("Add-on failed: add-on team-a/karpenter in cluster demo\nEmpty: Nothing"))
}

func TestMayNotifyAddon_ignoresWhatIsNoFailure(t *testing.T) {
	g := NewWithT(t)
	before := failingAddon(addonsv1.ClusterAddonStatus{Name: "demo", Reason: addonsv1.ApplyingReason})
	passes := func(after *addonsv1.CAPTAddon) bool {
		return mayNotifyAddon().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	g.Expect(passes(failingAddon(addonsv1.ClusterAddonStatus{Name: "demo", Reason: addonsv1.NotReadyReason}))).To(BeFalse())
	g.Expect(passes(failingAddon(addonsv1.ClusterAddonStatus{Name: "demo", Reason: addonsv1.TimedOutReason}))).To(BeTrue())
	labelled := before.DeepCopy()
	labelled.Labels = map[string]string{"stage": "production"}
	g.Expect(passes(labelled)).To(BeTrue(), "the selector of a notification may select it now")
}

package nodes

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func member(name, providerID string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Unix(60, 0)}}},
	}
}

func TestMembers_failing(t *testing.T) {
	up, down := member("up", "", corev1.ConditionTrue), member("down", "", corev1.ConditionUnknown)
	for name, c := range map[string]struct {
		members           Members
		failing, failing1 bool
	}{
		"no node":      {},
		"all work":     {members: Members{up, up}},
		"none works":   {members: Members{down, down}, failing: true, failing1: true},
		"half of them": {members: Members{up, down}},
		"one of three": {members: Members{up, down, down}, failing1: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.members.Failing(false) != "").To(Equal(c.failing))
			g.Expect(c.members.Failing(true) != "").To(Equal(c.failing1))
		})
	}
}

func TestList_leavesOutFargate(t *testing.T) {
	g := NewWithT(t)
	first, second := member("a", "aws:///a", corev1.ConditionTrue), member("b", "", corev1.ConditionFalse)
	pod := member("fargate", "", corev1.ConditionTrue)
	pod.Labels = map[string]string{"eks.amazonaws.com/compute-type": "fargate"}
	members, err := List(t.Context(), fake.NewClientBuilder().WithObjects(&first, &second, &pod).Build())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(members).To(HaveLen(2))
	g.Expect(members.Ready()).To(Equal(1))
	g.Expect(members.Find("aws:///a", "").Name).To(Equal("a"))
	g.Expect(members.Find("aws:///other", "a")).To(BeNil(), "another instance has the name now")
	g.Expect(members.Find("aws:///b", "b").Name).To(Equal("b"))
	g.Expect(members.Find("", "")).To(BeNil())
	since, notReady := NotReadySince(members.Find("", "b"))
	g.Expect(notReady).To(BeTrue())
	g.Expect(since.Equal(time.Unix(60, 0))).To(BeTrue())
	_, notReady = NotReadySince(members.Find("", "a"))
	g.Expect(notReady).To(BeFalse())
}

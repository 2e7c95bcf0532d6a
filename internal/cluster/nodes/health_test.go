package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

func TestList_readsPages(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	pages := interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var options client.ListOptions
		options.ApplyOptions(opts)
		asked = append(asked, fmt.Sprintf("%d %s", options.Limit, options.Continue))
		node := member("node-"+options.Continue, "", corev1.ConditionTrue)
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
		found := list.(*corev1.NodeList)
		found.Items = []corev1.Node{node}
		if options.Continue == "" {
			found.Continue = "2"
		}
		return nil
	}}
	members, err := List(t.Context(), fake.NewClientBuilder().WithInterceptorFuncs(pages).Build())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(Equal([]string{"100 ", "100 2"}))
	g.Expect(members).To(HaveLen(2))
	g.Expect(members[1].Name).To(Equal("node-2"))
	g.Expect(members[1].Status.Images).To(BeEmpty())
}

func TestList_endsIfTheNodesNeedTooMuchMemory(t *testing.T) {
	g := NewWithT(t)
	for _, nodes := range [][]corev1.Node{
		{member(strings.Repeat("n", 1<<20), "", corev1.ConditionTrue)},
		make([]corev1.Node, 100), // Empty ones need memory, too.
	} {
		pages := 0
		endless := interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			found := list.(*corev1.NodeList)
			found.Items, found.Continue = nodes, "more"
			pages++
			return nil
		}}
		_, err := List(t.Context(), fake.NewClientBuilder().WithInterceptorFuncs(endless).Build())
		g.Expect(err).To(MatchError(ContainSubstring("need more than 16 MiB")))
		g.Expect(pages).To(BeNumerically("<", 200))
	}
}

package nodes_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &env))
}

func TestStart_waitsForOneThingAfterAnother(t *testing.T) {
	now := metav1.Now()
	cluster := func(infra, controlPlane bool) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
		c.Status.Initialization.InfrastructureProvisioned = &infra
		c.Status.Initialization.ControlPlaneInitialized = &controlPlane
		return c
	}
	leaving := cluster(true, true)
	leaving.DeletionTimestamp = &now
	for name, c := range map[string]struct {
		start nodes.Start
		want  string
	}{
		"alone without a control plane":      {nodes.Start{Cluster: cluster(true, false)}, infrav1.WaitingForControlPlaneReason},
		"alone":                              {nodes.Start{Cluster: cluster(true, true)}, ""},
		"a Cluster that goes":                {nodes.Start{Cluster: leaving}, infrav1.DeletingReason},
		"an owner that goes":                 {nodes.Start{Cluster: cluster(true, true), Owner: "Machine x", Leaving: true}, infrav1.DeletingReason},
		"a new Cluster":                      {nodes.Start{Cluster: &clusterv1.Cluster{}, Owner: "Machine x"}, infrav1.WaitingForInfrastructureReason},
		"a worker without a control plane":   {nodes.Start{Cluster: cluster(true, false), Owner: "Machine x", Bootstrap: new("x")}, infrav1.WaitingForControlPlaneReason},
		"a worker without bootstrap data":    {nodes.Start{Cluster: cluster(true, true), Owner: "Machine x"}, infrav1.WaitingForBootstrapDataReason},
		"a worker that needs none":           {nodes.Start{Cluster: cluster(true, true), Owner: "Machine x", Bootstrap: new("")}, ""},
		"a control plane without its data":   {nodes.Start{Cluster: cluster(true, false), Owner: "Machine x", ControlPlane: true}, infrav1.WaitingForBootstrapDataReason},
		"a control plane waits for no other": {nodes.Start{Cluster: cluster(true, false), Owner: "Machine x", ControlPlane: true, Bootstrap: new("x")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := c.start.Wait()
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(waiting.Reason).To(Equal(c.want))
		})
	}
}

func TestFind_knowsANodeByItsProviderID(t *testing.T) {
	g := NewWithT(t)
	for name, id := range map[string]string{"one": "test:///1", "two": "test:///2", "silent": ""} {
		_, err := nodestest.Join(t.Context(), env.Client, name, id, nil)
		g.Expect(err).NotTo(HaveOccurred())
	}
	for name, c := range map[string]struct{ id, name, want string }{
		"by the provider ID":                    {"test:///1", "", "one"},
		"by both":                               {"test:///1", "one", "one"},
		"under another name than expected":      {"test:///1", "missing", "one"},
		"not a namesake of another instance":    {"test:///1", "two", "one"},
		"not a namesake alone":                  {"test:///3", "two", ""},
		"by its name, as it tells nothing":      {"test:///3", "silent", "silent"},
		"by its name, as nothing else is known": {"", "two", "two"},
		"not at all":                            {"", "", ""},
		"not yet":                               {"test:///3", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			node, err := nodes.Find(t.Context(), env.Client, c.id, c.name)
			g.Expect(err).NotTo(HaveOccurred())
			if c.want == "" {
				g.Expect(node).To(BeNil())
				return
			}
			g.Expect(node).To(HaveField("Name", c.want))
		})
	}
}

func TestChanged_sleepsThroughHeartbeats(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.NodeSpec{ProviderID: "test:///1"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(n)
		}
		return n
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat":    {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		"an image":       {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
		"readiness":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"a provider ID":  {func(n *corev1.Node) { n.Spec.ProviderID = "test:///2" }, true},
		"another label":  {func(n *corev1.Node) { n.Labels["a"] = "c" }, true},
		"no status left": {func(n *corev1.Node) { n.Status.Conditions = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: node(nil), ObjectNew: node(c.change)}
			NewWithT(t).Expect(nodes.Changed().Update(update)).To(Equal(c.want))
		})
	}
}

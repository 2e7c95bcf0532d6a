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

func TestPreconditions_waitForOneAfterAnother(t *testing.T) {
	now := metav1.Now()
	cluster := func(infra, controlPlane bool) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
		c.Status.Initialization.InfrastructureProvisioned = &infra
		c.Status.Initialization.ControlPlaneInitialized = &controlPlane
		return c
	}
	deleted := cluster(true, true)
	deleted.DeletionTimestamp = &now
	for name, c := range map[string]struct {
		preconditions nodes.Preconditions
		want          string
	}{
		"standalone without a control plane":              {nodes.Preconditions{Cluster: cluster(true, false)}, infrav1.WaitingForControlPlaneReason},
		"standalone":                                      {nodes.Preconditions{Cluster: cluster(true, true)}, ""},
		"Cluster being deleted":                           {nodes.Preconditions{Cluster: deleted}, infrav1.DeletingReason},
		"owner being deleted":                             {nodes.Preconditions{Cluster: cluster(true, true), Owner: "Machine x", OwnerDeleting: true}, infrav1.DeletingReason},
		"new Cluster":                                     {nodes.Preconditions{Cluster: &clusterv1.Cluster{}, Owner: "Machine x"}, infrav1.WaitingForInfrastructureReason},
		"worker without a control plane":                  {nodes.Preconditions{Cluster: cluster(true, false), Owner: "Machine x", BootstrapSecret: new("x")}, infrav1.WaitingForControlPlaneReason},
		"worker without bootstrap data":                   {nodes.Preconditions{Cluster: cluster(true, true), Owner: "Machine x"}, infrav1.WaitingForBootstrapDataReason},
		"worker that needs no bootstrap data":             {nodes.Preconditions{Cluster: cluster(true, true), Owner: "Machine x", BootstrapSecret: new("")}, ""},
		"control plane without bootstrap data":            {nodes.Preconditions{Cluster: cluster(true, false), Owner: "Machine x", ControlPlane: true}, infrav1.WaitingForBootstrapDataReason},
		"control plane does not wait for a control plane": {nodes.Preconditions{Cluster: cluster(true, false), Owner: "Machine x", ControlPlane: true, BootstrapSecret: new("x")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := c.preconditions.Check()
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

func TestFind(t *testing.T) {
	g := NewWithT(t)
	for name, id := range map[string]string{"one": "test:///1", "two": "test:///2", "without-id": ""} {
		_, err := nodestest.Join(t.Context(), env.Client, name, id, nil)
		g.Expect(err).NotTo(HaveOccurred())
	}
	for name, c := range map[string]struct{ id, name, want string }{
		"by provider ID":                   {"test:///1", "", "one"},
		"by name and provider ID":          {"test:///1", "one", "one"},
		"another name than expected":       {"test:///1", "missing", "one"},
		"name belongs to another instance": {"test:///1", "two", "one"},
		"name belongs to another instance, no node with the provider ID": {"test:///3", "two", ""},
		"by name, node without provider ID":                              {"test:///3", "without-id", "without-id"},
		"by name, provider ID unknown":                                   {"", "two", "two"},
		"nothing known":                                                  {"", "", ""},
		"node does not exist":                                            {"test:///3", "", ""},
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

func TestChanged_ignoresHeartbeats(t *testing.T) {
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
		"heartbeat":     {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		"image":         {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
		"readiness":     {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"provider ID":   {func(n *corev1.Node) { n.Spec.ProviderID = "test:///2" }, true},
		"label":         {func(n *corev1.Node) { n.Labels["a"] = "c" }, true},
		"no conditions": {func(n *corev1.Node) { n.Status.Conditions = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: node(nil), ObjectNew: node(c.change)}
			NewWithT(t).Expect(nodes.Changed().Update(update)).To(Equal(c.want))
		})
	}
}

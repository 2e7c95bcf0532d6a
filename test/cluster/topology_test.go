package cluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// topology returns a Cluster of the class local with one worker of each kind.
func topology(name, version string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "local"},
			Version:  version,
			Workers: clusterv1.WorkersTopology{
				MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "node", Name: "a", Replicas: new(int32(1))}},
				MachinePools:       []clusterv1.MachinePoolTopology{{Class: "node-group", Name: "b", Replicas: new(int32(1))}},
			},
		}},
	}
}

// nodes returns the ready nodes of the workload cluster.
func (h *harness) nodes(name string) (ready []string) {
	h.t.Helper()
	var list corev1.NodeList
	h.Expect(h.workload(name).List(h.ctx, &list)).To(Succeed())
	for _, node := range list.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready = append(ready, node.Name)
			}
		}
	}
	return ready
}

// Cluster API's topology controller creates, upgrades, rescales and deletes a cluster
// of the repository's own ClusterClass.
func TestTopology_createsUpgradesRescalesAndDeletes(t *testing.T) {
	h := newHarness(t)
	name := h.localTemplates()
	h.install("clusterclasses/local.yaml")
	h.create(topology(name, "v1.36.0"))

	cluster := h.waitAvailable(name)
	h.Eventually(func() []string { return h.nodes(name) }, testTimeout, time.Second).Should(HaveLen(2))
	h.Eventually(func(g Gomega) {
		machines := h.machines(name)
		g.Expect(machines).To(HaveLen(1))
		g.Expect(machines[0].Status.NodeRef.Name).NotTo(BeEmpty(), "Cluster API has found the node")
	}, testTimeout).Should(Succeed())

	change(h, name, cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.37.0" })
	h.Eventually(func(g Gomega) {
		c := h.cluster(name)
		g.Expect(objecttest.Text(objecttest.Condition(c, clusterv1.ClusterTopologyReconciledCondition))).To(HavePrefix("True"))
		g.Expect(h.controlPlane(c.Spec.ControlPlaneRef.Name).Status.Version).To(Equal("v1.37.1"))
		machines := h.machines(name)
		g.Expect(machines).To(HaveLen(1))
		g.Expect(machines[0].Spec.Version).To(Equal("v1.37.0"), "the workers are upgraded too")
	}, testTimeout, time.Second).Should(Succeed())

	change(h, name, cluster, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments[0].Replicas = new(int32(2))
		c.Spec.Topology.Workers.MachinePools[0].Replicas = new(int32(3))
	})
	h.Eventually(func() []string { return h.nodes(name) }, testTimeout, time.Second).Should(HaveLen(5))
	change(h, name, cluster, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments[0].Replicas = new(int32(0))
		c.Spec.Topology.Workers.MachinePools[0].Replicas = new(int32(1))
	})
	h.Eventually(func() []string { return h.nodes(name) }, testTimeout, time.Second).Should(HaveLen(1))

	// The controller that deletes a load balancer needs a node to run on.
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "front", Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	workload := h.workload(name)
	h.Expect(workload.Create(h.ctx, service)).To(Succeed())
	h.delete(cluster)
	h.Eventually(func(g Gomega) {
		g.Expect(objecttest.Text(objecttest.Condition(h.pool(name), infrav1.DestroyedCondition))).To(HavePrefix("False WaitingForTeardown"))
		g.Expect(workload.Get(h.ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
		g.Expect(service.DeletionTimestamp).NotTo(BeNil())
	}, testTimeout).Should(Succeed())
	h.Expect(h.nodes(name)).To(HaveLen(1))
	service.Finalizers = nil
	h.Expect(workload.Update(h.ctx, service)).To(Succeed())
	h.waitDeleted(cluster)
	h.Expect(testenv.ProcessesOf("capt-local-" + name)).To(BeEmpty())
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
}

func (h *harness) machines(name string) []clusterv1.Machine {
	h.t.Helper()
	var list clusterv1.MachineList
	h.Expect(h.env.Client.List(h.ctx, &list, client.InNamespace(h.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})).To(Succeed())
	return list.Items
}

func (h *harness) pool(name string) *infrav1.CAPTMachinePool {
	h.t.Helper()
	var list infrav1.CAPTMachinePoolList
	h.Expect(h.env.Client.List(h.ctx, &list, client.InNamespace(h.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})).To(Succeed())
	h.Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// localCluster creates a cluster whose nodes KWOK simulates.
func (h *harness) localCluster() (name string) {
	h.t.Helper()
	name = h.localTemplates()
	parts, err := infrav1.NewValue([]string{"controller-manager", "scheduler", "kwok"})
	h.Expect(err).NotTo(HaveOccurred())
	h.create(newCluster(name),
		newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.WorkspaceTemplateRef.Name = "local-controlplane"
			s.Variables = map[string]infrav1.Value{"with": parts}
		}))
	h.waitReady(name)
	return name
}

func machineDeployment(cluster, name string, replicas int32) *infrav1.CAPTMachineDeployment {
	labels := map[string]string{"pool": name}
	return &infrav1.CAPTMachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.CAPTMachineDeploymentSpec{
			ClusterName: cluster, Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Strategy: &infrav1.MachineDeploymentStrategy{RollingUpdate: &infrav1.RollingUpdate{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}},
			Template: infrav1.MachineTemplate{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "local-node"}, InstanceType: "m5.large"},
			},
		},
	}
}

// readyNodes waits for count ready nodes and returns them.
func (h *harness) readyNodes(cluster string, count int) []corev1.Node {
	h.t.Helper()
	var list corev1.NodeList
	h.Eventually(func(g Gomega) {
		g.Expect(h.nodes(cluster)).To(HaveLen(count))
		g.Expect(h.workload(cluster).List(h.ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(count))
	}, testTimeout, 500*time.Millisecond).Should(Succeed())
	return list.Items
}

// The tree of a cluster: control plane, deployment, set, machine, node.
func TestMachines_deploymentRollsScalesAndIsDeletedFirst(t *testing.T) {
	h := newHarness(t)
	name := h.localCluster()
	h.create(machineDeployment(name, "workers", 2))
	nodes := h.readyNodes(name, 2)
	waitCondition(h, "workers", &infrav1.CAPTMachineDeployment{}, infrav1.ReadyCondition, "True")
	deployment := get(h, "workers", &infrav1.CAPTMachineDeployment{})
	h.Expect(metav1.IsControlledBy(deployment, h.controlPlane(name))).To(BeTrue(), "the control plane owns the deployments of its cluster")
	h.Expect(nodes[0].Labels).To(HaveKeyWithValue(corev1.LabelInstanceTypeStable, "m5.large"))

	// A label needs no new node.
	change(h, "workers", deployment, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Template.Spec.Labels = map[string]string{"example.com/tier": "front"}
	})
	h.Eventually(func(g Gomega) {
		for _, node := range h.readyNodes(name, 2) {
			g.Expect(node.Labels).To(HaveKeyWithValue("example.com/tier", "front"))
			g.Expect(slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.UID == node.UID })).To(BeTrue(), "the same node")
		}
	}, testTimeout).Should(Succeed())

	// Another instance type does. Pods are evicted before their node is deleted.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "web-", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: nodes[0].Name, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
	h.Eventually(func() error { return h.workload(name).Create(h.ctx, pod) }, testTimeout).Should(Succeed())
	change(h, "workers", deployment, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Template.Spec.InstanceType = "m5.xlarge" })
	h.Eventually(func(g Gomega) {
		fresh := h.readyNodes(name, 2)
		for _, node := range fresh {
			g.Expect(node.Labels).To(HaveKeyWithValue(corev1.LabelInstanceTypeStable, "m5.xlarge"))
		}
	}, testTimeout).Should(Succeed())
	err := h.workload(name).Get(h.ctx, client.ObjectKeyFromObject(pod), pod)
	h.Expect(client.IgnoreNotFound(err)).To(Succeed())
	h.Expect(err).To(HaveOccurred(), "the pod was evicted from the deleted node")

	h.run("kubectl", "scale", "captmachinedeployment/workers", "--replicas=3")
	h.readyNodes(name, 3)

	h.destroy(h.cluster(name))
	h.Expect(testenv.ProcessesOf("capt-local-" + name)).To(BeEmpty())
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
}

// A node that Cluster API's MachineHealthCheck reports as unhealthy is replaced.
func TestMachines_healthCheckReplacesAnUnhealthyNode(t *testing.T) {
	h := newHarness(t)
	name := h.localCluster()
	labels := map[string]string{clusterv1.ClusterNameLabel: name, "pool": "checked"}
	h.create(
		&infrav1.CAPTMachineTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: "checked"},
			Spec: infrav1.CAPTMachineTemplateSpec{Template: infrav1.CAPTMachineTemplateResource{
				Spec: infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "local-node"}},
			}},
		},
		&clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Name: "checked"},
			Spec: clusterv1.MachineDeploymentSpec{
				ClusterName: name, Replicas: new(int32(1)), Selector: metav1.LabelSelector{MatchLabels: labels},
				Template: clusterv1.MachineTemplateSpec{
					ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
					Spec: clusterv1.MachineSpec{
						ClusterName: name, Version: "v1.37.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
						InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachineTemplate", Name: "checked"},
					},
				},
			},
		},
		&clusterv1.MachineHealthCheck{
			ObjectMeta: metav1.ObjectMeta{Name: "checked"},
			Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: name, Selector: metav1.LabelSelector{MatchLabels: labels},
				Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
					{Type: "KernelDeadlock", Status: corev1.ConditionTrue, TimeoutSeconds: new(int32(1))},
				}},
			},
		})
	ill := h.readyNodes(name, 1)[0]
	h.Eventually(func(g Gomega) {
		machines := h.machines(name)
		g.Expect(machines).To(HaveLen(1))
		g.Expect(machines[0].Status.NodeRef.Name).To(Equal(ill.Name))
		g.Expect(machines[0].Spec.ProviderID).To(Equal(ill.Spec.ProviderID))
		g.Expect(machines[0].Status.Addresses).NotTo(BeEmpty())
	}, testTimeout).Should(Succeed())

	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"KernelDeadlock","status":"True","reason":"Stuck","lastTransitionTime":%q}]}}`,
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	h.Expect(h.workload(name).Status().Patch(h.ctx, &ill, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))).To(Succeed())

	h.Eventually(func(g Gomega) {
		nodes := h.readyNodes(name, 1)
		g.Expect(nodes[0].UID).NotTo(Equal(ill.UID))
	}, testTimeout).Should(Succeed())

	h.destroy(h.cluster(name))
	h.Eventually(h.leftovers, testTimeout).Should(BeEmpty())
}

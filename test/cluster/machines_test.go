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
)

// localCluster creates a cluster whose nodes KWOK simulates.
func (w *harness) localCluster() (name string) {
	w.t.Helper()
	name = w.localTemplates()
	parts, err := infrav1.NewValue([]string{"controller-manager", "scheduler", "kwok"})
	w.Expect(err).NotTo(HaveOccurred())
	w.create(newCluster(name),
		newInfra(name, func(s *infrav1.CAPTClusterSpec) { s.VPCTemplateRef.Name = "local-vpc" }),
		newControlPlane(name, func(s *controlplanev1.CAPTControlPlaneSpec) {
			s.WorkspaceTemplateRef.Name = "local-controlplane"
			s.Variables = map[string]infrav1.Value{"with": parts}
		}))
	w.waitReady(name)
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
func (w *harness) readyNodes(cluster string, count int) []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	w.Eventually(func(g Gomega) {
		g.Expect(w.nodes(cluster)).To(HaveLen(count))
		g.Expect(w.workload(cluster).List(w.ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(count))
	}, testTimeout, 500*time.Millisecond).Should(Succeed())
	return list.Items
}

// The tree of a cluster: control plane, deployment, set, machine, node.
func TestMachines_deploymentRollsScalesAndIsDeletedFirst(t *testing.T) {
	w := newHarness(t)
	name := w.localCluster()
	w.create(machineDeployment(name, "workers", 2))
	nodes := w.readyNodes(name, 2)
	waitCondition(w, "workers", &infrav1.CAPTMachineDeployment{}, infrav1.ReadyCondition, "True")
	deployment := get(w, "workers", &infrav1.CAPTMachineDeployment{})
	w.Expect(metav1.IsControlledBy(deployment, w.controlPlane(name))).To(BeTrue(), "the control plane owns the deployments of its cluster")
	w.Expect(nodes[0].Labels).To(HaveKeyWithValue(corev1.LabelInstanceTypeStable, "m5.large"))

	// A label needs no new node.
	change(w, "workers", deployment, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Template.Spec.Labels = map[string]string{"example.com/tier": "front"}
	})
	w.Eventually(func(g Gomega) {
		for _, node := range w.readyNodes(name, 2) {
			g.Expect(node.Labels).To(HaveKeyWithValue("example.com/tier", "front"))
			g.Expect(slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.UID == node.UID })).To(BeTrue(), "the same node")
		}
	}, testTimeout).Should(Succeed())

	// Another instance type does. Pods are evicted before their node is deleted.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "web-", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: nodes[0].Name, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
	w.Eventually(func() error { return w.workload(name).Create(w.ctx, pod) }, testTimeout).Should(Succeed())
	change(w, "workers", deployment, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Template.Spec.InstanceType = "m5.xlarge" })
	w.Eventually(func(g Gomega) {
		fresh := w.readyNodes(name, 2)
		for _, node := range fresh {
			g.Expect(node.Labels).To(HaveKeyWithValue(corev1.LabelInstanceTypeStable, "m5.xlarge"))
		}
	}, testTimeout).Should(Succeed())
	err := w.workload(name).Get(w.ctx, client.ObjectKeyFromObject(pod), pod)
	w.Expect(client.IgnoreNotFound(err)).To(Succeed())
	w.Expect(err).To(HaveOccurred(), "the pod was evicted from the deleted node")

	w.run("kubectl", "scale", "captmachinedeployment/workers", "--replicas=3")
	w.readyNodes(name, 3)

	cluster := w.cluster(name)
	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Expect(processesOf("capt-local-" + name)).To(BeEmpty())
	w.Eventually(w.leftovers, testTimeout).Should(BeEmpty())
}

// A node that Cluster API's MachineHealthCheck reports as unhealthy is replaced.
func TestMachines_healthCheckReplacesAnUnhealthyNode(t *testing.T) {
	w := newHarness(t)
	name := w.localCluster()
	labels := map[string]string{clusterv1.ClusterNameLabel: name, "pool": "checked"}
	w.create(
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
	ill := w.readyNodes(name, 1)[0]
	w.Eventually(func(g Gomega) {
		machines := w.machines(name)
		g.Expect(machines).To(HaveLen(1))
		g.Expect(machines[0].Status.NodeRef.Name).To(Equal(ill.Name))
		g.Expect(machines[0].Spec.ProviderID).To(Equal(ill.Spec.ProviderID))
		g.Expect(machines[0].Status.Addresses).NotTo(BeEmpty())
	}, testTimeout).Should(Succeed())

	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"KernelDeadlock","status":"True","reason":"Stuck","lastTransitionTime":%q}]}}`,
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	w.Expect(w.workload(name).Status().Patch(w.ctx, &ill, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))).To(Succeed())

	w.Eventually(func(g Gomega) {
		nodes := w.readyNodes(name, 1)
		g.Expect(nodes[0].UID).NotTo(Equal(ill.UID))
	}, testTimeout).Should(Succeed())

	cluster := w.cluster(name)
	w.delete(cluster)
	w.waitDeleted(cluster)
	w.Eventually(w.leftovers, testTimeout).Should(BeEmpty())
}

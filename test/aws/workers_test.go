package aws

import (
	"encoding/json"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// nodeGroups returns the names of the node groups.
func (m *management) nodeGroups() []string {
	m.t.Helper()
	var list struct{ NodeGroups []string }
	m.Expect(json.Unmarshal([]byte(m.eks("GET", "/clusters/"+m.cluster+"/node-groups", "")), &list)).To(Succeed())
	return list.NodeGroups
}

// workersHave waits until every node group and every machine of a CAPTMachineDeployment
// has a version, and the runs of the machine pools have ended.
func (m *management) workersHave(version string) {
	m.t.Helper()
	m.Eventually(func(g Gomega) {
		for _, group := range m.nodeGroups() {
			found, err := m.version(m.t.Context(), group)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(version), group)
		}
		var pools infrav1.CAPTMachinePoolList
		g.Expect(m.env.Client.List(m.t.Context(), &pools, client.InNamespace(m.namespace))).To(Succeed())
		for i := range pools.Items {
			ready := conditions.Get(&pools.Items[i], infrav1.NodeGroupReadyCondition)
			g.Expect(ready).To(HaveValue(HaveField("Status", metav1.ConditionTrue)), pools.Items[i].Name)
		}
		var deployments infrav1.CAPTMachineDeploymentList
		g.Expect(m.env.Client.List(m.t.Context(), &deployments, client.InNamespace(m.namespace))).To(Succeed())
		for i := range deployments.Items {
			current := conditions.Get(&deployments.Items[i], infrav1.VersionCurrentCondition)
			g.Expect(current).To(HaveValue(HaveField("Status", metav1.ConditionTrue)), deployments.Items[i].Name)
		}
		var machines infrav1.CAPTMachineList
		g.Expect(m.env.Client.List(m.t.Context(), &machines, client.InNamespace(m.namespace))).To(Succeed())
		for _, machine := range machines.Items {
			if owner := metav1.GetControllerOf(&machine); owner != nil && owner.Kind == "CAPTMachineSet" {
				g.Expect(machine.Status.Version).To(HavePrefix("v"+version), machine.Name)
			}
		}
	}, testTimeout, time.Second).Should(Succeed())
}

// available waits until the Cluster and all workers are available.
func (m *management) available(cluster *clusterv1.Cluster) {
	m.t.Helper()
	m.wait(cluster, clusterv1.AvailableCondition)
	m.Eventually(func(g Gomega) {
		for _, pool := range m.pools() {
			g.Expect(pool.Status.ReadyReplicas).To(HaveValue(Equal(*pool.Spec.Replicas)), "MachinePool %s: %v", pool.Name, pool.Status.Conditions)
		}
		for _, deployment := range m.deployments() {
			g.Expect(deployment.Status.AvailableReplicas).To(HaveValue(Equal(*deployment.Spec.Replicas)), "MachineDeployment %s: %v", deployment.Name, deployment.Status.Conditions)
		}
		var own infrav1.CAPTMachineDeploymentList
		g.Expect(m.env.Client.List(m.t.Context(), &own, client.InNamespace(m.namespace))).To(Succeed())
		for _, deployment := range own.Items {
			g.Expect(deployment.Status.AvailableReplicas).To(HaveValue(Equal(*deployment.Spec.Replicas)), "CAPTMachineDeployment %s: %v", deployment.Name, deployment.Status.Conditions)
		}
	}, testTimeout, time.Second).Should(Succeed())
}

func (m *management) pools() []clusterv1.MachinePool {
	m.t.Helper()
	var list clusterv1.MachinePoolList
	m.Expect(m.env.Client.List(m.t.Context(), &list, client.InNamespace(m.namespace))).To(Succeed())
	return list.Items
}

func (m *management) deployments() []clusterv1.MachineDeployment {
	m.t.Helper()
	var list clusterv1.MachineDeploymentList
	m.Expect(m.env.Client.List(m.t.Context(), &list, client.InNamespace(m.namespace))).To(Succeed())
	return list.Items
}

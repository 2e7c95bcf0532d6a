package captmachinepool

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
)

func TestMachinePool_ownsPool(t *testing.T) {
	h := newHarness(t)
	h.join(0)
	second := h.join(1)
	owner, infra := h.pool(2)

	h.WaitFor(owner, "the MachinePool should have the nodes", func(g Gomega) {
		g.Expect(owner.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(h.Namespace, 0), providerID(h.Namespace, 1)}))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(2))))
	})
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.Expect(infra.Spec.ProviderID).To(Equal("group-spot"))
	h.Expect(infra.Status.Replicas).To(HaveValue(Equal(int32(2))))
	h.expectVariables(map[string]string{
		"name": "spot", "cluster_name": "production", "desired_size": "2", "min_size": "2", "max_size": "2",
		"subnet_ids": `["subnet-1","subnet-2"]`, "kubernetes_version": "1.33", "capacity_type": "ON_DEMAND",
	})

	h.WaitForCondition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	h.WaitFor(owner, "Cluster API should find the nodes", func(g Gomega) { g.Expect(owner.Status.NodeRefs).To(HaveLen(2)) })
	h.ExpectNoWrites(h.settle, infra, h.workspace())

	h.scale(owner, 1)
	h.expectVariables(map[string]string{"desired_size": "1"})
	h.Delete(second)
	h.WaitFor(owner, "one node should go", func(g Gomega) {
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(h.Namespace, 0)}))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(1))))
		g.Expect(owner.Status.NodeRefs).To(HaveLen(1))
	})

	h.Delete(owner)
	h.WaitUntilGone(infra, "the pool should be deleted with its MachinePool")
	h.WaitUntilGone(h.workspace(), "the node group should be destroyed")
	h.WaitUntilGone(owner, "nothing should block the deletion")
}

func TestPool_setsTheSettingsOfItsWorkspace(t *testing.T) {
	h := newHarness(t)
	_, infra := h.pool(0)
	h.WaitFor(h.workspace(), "the workspace should be created", func(Gomega) {})
	h.Update(infra, func() {
		infra.Spec.Workspace = &infrav1.WorkspaceSettings{Approval: infrav1.ApprovalManual, Drift: &infrav1.DriftPolicy{Action: infrav1.DriftRepair}}
	})
	apply := h.workspace()
	h.WaitFor(apply, "the settings should reach the workspace", func(g Gomega) {
		g.Expect(apply.Spec.Approval).To(Equal(infrav1.ApprovalManual))
		g.Expect(apply.Spec.Drift).To(HaveField("Action", infrav1.DriftRepair))
	})
	h.Update(infra, func() { infra.Spec.Workspace = nil })
	h.Eventually(func(g Gomega) {
		// Decoding into another object would keep the fields that were removed.
		apply := h.workspace()
		h.Get(apply)
		g.Expect(apply.Spec.Approval).To(BeEmpty(), "the default")
		g.Expect(apply.Spec.Drift).To(BeNil(), "the default")
	}).Should(Succeed())
}

// expectVariables waits until the workspace has variables.
func (h *harness) expectVariables(want map[string]string) {
	h.T.Helper()
	apply := h.workspace()
	h.WaitFor(apply, "the workspace should have the variables", func(g Gomega) {
		for name, value := range want {
			g.Expect(apply.Spec.Variables[name].String()).To(Equal(value), "%s", name)
		}
		g.Expect(apply.Spec.RequiredOutputs).To(ConsistOf("provider_id_list"))
	})
}

func (h *harness) scale(owner *clusterv1.MachinePool, replicas int32) {
	h.T.Helper()
	h.Update(owner, func() { owner.Spec.Replicas = &replicas })
}

func TestPool_followsNodesWithoutRuns(t *testing.T) {
	h := newHarness(t)
	first := h.join(0)
	h.join(1)
	owner, infra := h.pool(2)
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.WaitForCondition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	apply := h.workspace()
	h.Get(apply)
	runs := apply.Status.Runs

	// The cloud replaces a node.
	h.Delete(first)
	h.WaitFor(owner, "a deleted node should leave the list", func(g Gomega) {
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(h.Namespace, 1)}))
	})
	h.WaitForCondition(infra, infrav1.ReplicasReadyCondition, metav1.ConditionFalse, infrav1.WaitingForReplicasReason)
	h.join(2)
	h.WaitFor(owner, "the new node should be in the list", func(g Gomega) {
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(h.Namespace, 1), providerID(h.Namespace, 2)}))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(2))))
	})
	h.WaitForCondition(infra, infrav1.ReplicasReadyCondition, metav1.ConditionTrue, "Ready")
	h.Get(apply)
	h.Expect(apply.Status.Runs).To(Equal(runs), "the nodes are watched")
	h.Expect(h.operations()).To(BeEmpty())

	h.Update(apply, func() {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.WaitAnnotation, "true")
	})
	h.Update(infra, func() { infra.Spec.CapacityType = infrav1.CapacityTypeSpot })
	h.WaitForCondition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason)
	h.join(3)
	h.WaitFor(infra, "nodes should be followed during a run too", func(g Gomega) {
		g.Expect(infra.Spec.ProviderIDList).To(HaveLen(3))
	})
}

func TestPool_refreshesOutputsWithoutSelector(t *testing.T) {
	h := newHarness(t)
	first := h.join(0)
	h.join(1)
	_, infra := h.pool(2)
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.setOutputs(`{"node_selector":null}`)
	h.WaitForCondition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	apply := h.workspace()
	h.Get(apply)
	runs := apply.Status.Runs

	// Only the nodes change, not the workspace.
	h.Delete(first)
	h.join(2)
	h.WaitFor(apply, "a run should be requested", func(g Gomega) {
		g.Expect(h.operations()).To(ConsistOf(HaveField("Name", HavePrefix(apply.Name+"-nodes-"))))
		g.Expect(apply.Status.Runs).To(BeNumerically(">", runs))
	})
	h.WaitFor(infra, "the change should be reported after a run without a change", func(g Gomega) {
		c := conditions.Get(infra, infrav1.MembersKnownCondition)
		g.Expect(c.Reason).To(Equal(infrav1.WaitingForNodeReason))
		g.Expect(c.Message).To(And(ContainSubstring("Nodes not in the cluster: "+providerID(h.Namespace, 0)), ContainSubstring("without a change")))
	})
	h.Get(apply)
	runs = apply.Status.Runs

	h.setOutputs(`{"node_selector":null,"provider_id_list":["` + providerID(h.Namespace, 1) + `","` + providerID(h.Namespace, 2) + `"]}`)
	h.WaitForCondition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	h.WaitFor(infra, "the list should be current", func(g Gomega) {
		g.Expect(infra.Spec.ProviderIDList).To(Equal([]string{providerID(h.Namespace, 1), providerID(h.Namespace, 2)}))
	})
	h.Get(apply)
	h.Expect(apply.Status.Runs).To(Equal(runs), "no run should be requested without a difference")
}

func TestPool_leavesSizeToAutoscaler(t *testing.T) {
	h := newHarness(t)
	owner, infra := h.pool(5, func(owner *clusterv1.MachinePool) {
		owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
	})
	h.WaitForCondition(infra, infrav1.ReplicasReadyCondition, metav1.ConditionTrue, infrav1.ReplicasManagedElsewhereReason)
	apply := h.workspace()
	h.Get(apply)
	h.Expect(apply.Spec.Variables["autoscaled"].String()).To(Equal("true"))
	h.Expect(apply.Spec.Variables["desired_size"].String()).To(Equal("5"), "the first number of nodes")
	runs := apply.Status.Runs

	for i := range 7 {
		h.join(i)
	}
	h.WaitFor(owner, "the MachinePool should have the number of the autoscaler", func(g Gomega) {
		g.Expect(owner.Spec.Replicas).To(HaveValue(Equal(int32(7))))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(7))))
		g.Expect(owner.Spec.ProviderIDList).To(HaveLen(7))
	})
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.Get(apply)
	h.Expect(apply.Status.Runs).To(Equal(runs), "a run is not needed")
	h.ExpectNoWrites(h.settle, infra, apply)
}

func TestPool_readsALongListFromTheConnectionSecret(t *testing.T) {
	h := newHarness(t)
	list := make([]string, 200)
	for i := range list {
		list[i] = fmt.Sprintf("test:///%s/%03d", h.Namespace, i)
	}
	content, err := json.Marshal(list)
	h.Expect(err).NotTo(HaveOccurred())
	leftOut.Store(h.Namespace)
	owner, infra := h.pool(200)
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "spot"}}
	h.WaitFor(apply, "the workspace should exist", func(g Gomega) { g.Expect(apply.UID).NotTo(BeEmpty()) })
	h.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: "spot-connection", Labels: map[string]string{infrav1.ComponentLabel: "connection"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(apply, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))},
		},
		Data: map[string][]byte{"provider_id_list": content},
	})
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.WaitFor(owner, "all nodes should be in the list", func(g Gomega) {
		g.Expect(owner.Spec.ProviderIDList).To(Equal(list))
	})
}

func TestPool_reportsReplicasOutsideOfScaling(t *testing.T) {
	h := newHarness(t)
	h.join(0)
	owner, infra := h.pool(1)
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.Update(infra, func() {
		infra.Spec.Scaling = &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(3))}
	})
	h.WaitForCondition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, "Ready")
	h.scale(owner, 4)
	h.WaitForCondition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionFalse, infrav1.ReplicasOutOfBoundsReason)
	h.expectVariables(map[string]string{"desired_size": "1", "max_size": "3"})
	h.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "provisioned should stay true")

	h.scale(owner, 3)
	h.join(1)
	h.join(2)
	h.WaitForCondition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, "Ready")
	h.expectVariables(map[string]string{"desired_size": "3", "max_size": "3"})
}

func TestPool_waitsForMachinePool(t *testing.T) {
	h := newHarness(t)
	infra := &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "without-owner"},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "group"}},
	}
	h.Create(infra)
	h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForMachinePoolReason)
	h.Delete(infra)
	h.WaitUntilGone(infra, "there is nothing to destroy")
	var nodes corev1.NodeList
	h.Expect(env.Client.List(t.Context(), &nodes, client.MatchingLabels{"group": h.Namespace})).To(Succeed())
	h.Expect(nodes.Items).To(BeEmpty())
}

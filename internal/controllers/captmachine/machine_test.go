package captmachine

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
)

// deployment creates a MachineDeployment of Cluster API.
func (h *harness) deployment(replicas int32) *clusterv1.MachineDeployment {
	h.T.Helper()
	h.Create(&bootstrapv1.CAPTBootstrapConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "workers"}})
	h.Create(&infrav1.CAPTMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "workers"},
		Spec: infrav1.CAPTMachineTemplateSpec{Template: infrav1.CAPTMachineTemplateResource{Spec: infrav1.CAPTMachineSpec{
			WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"},
		}}},
	})
	labels := map[string]string{"pool": "workers"}
	deployment := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "workers"},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "production", Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: "production", Version: nodestest.Version,
					Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfigTemplate", Name: "workers",
					}},
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachineTemplate", Name: "workers",
					},
				},
			},
		},
	}
	h.Create(deployment)
	return deployment
}

func (h *harness) machines(g Gomega) []clusterv1.Machine {
	var list clusterv1.MachineList
	g.Expect(env.Client.List(h.T.Context(), &list, client.InNamespace(h.Namespace))).To(Succeed())
	return list.Items
}

func (h *harness) scale(deployment *clusterv1.MachineDeployment, replicas int32) {
	h.T.Helper()
	h.Update(deployment, func() { deployment.Spec.Replicas = &replicas })
}

func TestMachineDeployment_ownsMachines(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	deployment := h.deployment(0)
	h.scale(deployment, 2)

	var machines []clusterv1.Machine
	h.Eventually(func(g Gomega) {
		machines = h.machines(g)
		g.Expect(machines).To(HaveLen(2))
		for _, m := range machines {
			g.Expect(m.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()), "%v", m.Status.Conditions)
			g.Expect(m.Spec.ProviderID).To(Equal(providerID(h.Namespace, m.Spec.InfrastructureRef.Name)))
			g.Expect(m.Status.Addresses).To(ContainElement(clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}))
			g.Expect(m.Status.FailureDomain).To(Equal("ap-northeast-1a"))
		}
	}).Should(Succeed(), "Cluster API should have the instances before any node has joined")

	for _, m := range machines {
		infra := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: m.Spec.InfrastructureRef.Name}}
		h.WaitForCondition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
		h.WaitForCondition(infra, infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason, infra.Spec.ProviderID)
		h.join(m.Spec.InfrastructureRef.Name)
		h.WaitForCondition(infra, infrav1.NodeReadyCondition, metav1.ConditionTrue, "Ready")
		h.expectVariables(m)
	}
	h.Eventually(func(g Gomega) {
		for _, m := range h.machines(g) {
			g.Expect(m.Status.NodeRef.Name).To(Equal(h.Namespace+"-"+m.Spec.InfrastructureRef.Name), "%v", m.Status.Conditions)
		}
	}).Should(Succeed(), "Cluster API should find the nodes by provider ID")

	h.scale(deployment, 1)
	h.Eventually(func(g Gomega) { g.Expect(h.machines(g)).To(HaveLen(1)) }).Should(Succeed(), "one machine should be deleted")
	h.Eventually(func(g Gomega) {
		var infra infrav1.CAPTMachineList
		g.Expect(env.Client.List(t.Context(), &infra, client.InNamespace(h.Namespace))).To(Succeed())
		g.Expect(infra.Items).To(HaveLen(1))
		var applies infrav1.WorkspaceTemplateApplyList
		g.Expect(env.Client.List(t.Context(), &applies, client.InNamespace(h.Namespace))).To(Succeed())
		g.Expect(applies.Items).To(HaveLen(2), "the control plane's and one machine's")
		g.Expect(h.nodes(g)).To(HaveLen(1))
	}).Should(Succeed(), "instance, workspace and node go with it")
	h.Delete(deployment)
	h.WaitUntilGone(deployment, "nothing keeps the deployment")
}

// nodes are the names of the nodes of this test.
func (h *harness) nodes(g Gomega) []string {
	var list corev1.NodeList
	g.Expect(env.Client.List(h.T.Context(), &list)).To(Succeed())
	var names []string
	for _, node := range list.Items {
		if strings.HasPrefix(node.Name, h.Namespace) {
			names = append(names, node.Name)
		}
	}
	return names
}

// expectVariables waits until the workspace of an owned machine has its variables.
func (h *harness) expectVariables(m clusterv1.Machine) {
	h.T.Helper()
	apply := h.Workspace(m.Spec.InfrastructureRef.Name)
	h.WaitFor(apply, "the workspace should have the variables", func(g Gomega) {
		variables := apply.Spec.Variables
		for name, want := range map[string]string{
			"name": m.Spec.InfrastructureRef.Name, "cluster_name": "production", "kubernetes_version": "1.33",
			"cluster_endpoint": "https://api.example.com", "cluster_certificate_authority_data": "Q0E=", "node_security_group_id": "sg-1",
			"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": `["subnet-1","subnet-2"]`,
			"bootstrap_secret_name": *m.Spec.Bootstrap.DataSecretName,
		} {
			g.Expect(variables[name].String()).To(Equal(want), "%s", name)
		}
		g.Expect(variables).NotTo(HaveKey("labels"))
		g.Expect(apply.Spec.RequiredOutputs).To(ConsistOf("provider_id"))
		g.Expect(apply.Spec.WriteConnectionSecretToRef.Name).To(Equal(apply.Name + "-connection"))
	})
}

func TestMachine_waitsForPreconditions(t *testing.T) {
	h := newHarness(t)
	standalone := h.machine("standalone")
	h.WaitForCondition(standalone, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneReason, "production")

	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: "owned"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "production", Version: nodestest.Version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfig", Name: "owned",
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachine", Name: "owned"},
		},
	}
	h.Create(owner)
	// Cluster API watches the config, but looks for a missing one only every 30 seconds.
	config := &bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.Namespace, Name: "owned", Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
	}}
	h.Create(config)
	infra := h.machine("owned")
	h.WaitForCondition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForInfrastructureReason)
	h.Expect(h.Cluster.Provision(t.Context())).To(Succeed())
	h.WaitForCondition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneReason)
	h.Expect(h.Cluster.Initialize(t.Context())).To(Succeed())
	h.WaitForCondition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForBootstrapDataReason, "Machine owned")
	h.WaitForCondition(standalone, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")

	h.Update(config, func() { config.Annotations = nil })
	h.WaitForCondition(infra, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestMachine_standaloneIsReadyWithItsNode(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker", func(m *infrav1.CAPTMachine) { m.Spec.Labels = map[string]string{"a": "b"} })
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason, "NodeReady")
	h.WaitFor(machine, "the instance should be provisioned without its node", func(g Gomega) {
		g.Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	})

	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	h.Expect(machine.Status.NodeName).To(Equal(node.Name))
	h.WaitForCondition(machine, infrav1.NodeUpdatedCondition, metav1.ConditionTrue, infrav1.NodeUpdatedCondition)
	h.ExpectNoWrites(h.settle, machine, h.Workspace("worker"))

	h.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionFalse)).To(Succeed())
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.NodeNotReadyReason, node.Name, "set by the test")
	h.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionTrue)).To(Succeed())
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")

	h.Delete(node)
	h.WaitForCondition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason)
	h.Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "provisioned should stay true")
}

func TestMachine_reportsReplacedInstance(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")

	apply := h.Workspace("worker")
	h.Update(apply, func() {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.OutputsAnnotation, `{"provider_id":"test:///other"}`)
	})
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.ProviderIDChangedReason, "test:///other", "delete this CAPTMachine")
	h.Expect(machine.Spec.ProviderID).To(Equal(providerID(h.Namespace, "worker")))
}

// A user who can change a workspace can remove its owner. A second workspace would create a
// second instance.
func TestMachine_takesItsWorkspaceBack(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
	apply := h.Workspace("worker")
	h.Update(apply, func() { apply.OwnerReferences = nil })
	h.WaitFor(apply, "the machine should own its workspace again", func(g Gomega) {
		g.Expect(metav1.IsControlledBy(apply, machine)).To(BeTrue())
	})
	var list infrav1.WorkspaceTemplateApplyList
	h.Expect(env.Client.List(t.Context(), &list, client.InNamespace(h.Namespace))).To(Succeed())
	for _, item := range list.Items {
		h.Expect(item.Name).To(Or(Equal("worker"), Not(HavePrefix("worker"))), "no second workspace")
	}
}

func TestMachine_doesNothingWhilePaused(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker", func(m *infrav1.CAPTMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	h.WaitForCondition(machine, infrav1.PausedCondition, metav1.ConditionTrue, "Paused")
	h.WaitUntilGone(h.Workspace("worker"), "no workspace should be created")

	h.Update(machine, func() { machine.Annotations = nil })
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestMachine_changesLabelsAndTaintsOfItsNode(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker", func(m *infrav1.CAPTMachine) { m.Spec.Labels = map[string]string{"tier": "one", "old": "x"} })
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
	node := h.join("worker")
	h.WaitForCondition(machine, infrav1.NodeUpdatedCondition, metav1.ConditionTrue, infrav1.NodeUpdatedCondition)
	h.WaitFor(node, "the labels of the machine should be set", func(g Gomega) {
		g.Expect(node.Labels).To(And(HaveKeyWithValue("tier", "one"), HaveKeyWithValue("old", "x")))
	})
	h.Update(node, func() {
		node.Labels["theirs"] = "kept"
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule})
	})

	h.Update(machine, func() {
		machine.Spec.Labels = map[string]string{"tier": "two"}
		machine.Spec.Taints = []infrav1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}}
	})
	h.WaitFor(node, "changes should reach the node", func(g Gomega) {
		g.Expect(node.Labels).To(And(HaveKeyWithValue("tier", "two"), Not(HaveKey("old")), HaveKeyWithValue("theirs", "kept")))
		g.Expect(node.Spec.Taints).To(ContainElements(HaveField("Key", "theirs"), And(HaveField("Key", "dedicated"), HaveField("Value", "gpu"))))
	})
	h.Update(machine, func() { machine.Spec.Taints = nil })
	h.WaitFor(node, "the taint should be removed", func(g Gomega) {
		g.Expect(node.Spec.Taints).To(And(ContainElement(HaveField("Key", "theirs")), Not(ContainElement(HaveField("Key", "dedicated")))))
	})
	apply := h.Workspace("worker")
	h.WaitFor(apply, "the change should be applied", func(g Gomega) {
		g.Expect(apply.Spec.Variables).NotTo(HaveKey("taints"))
		g.Expect(apply.Status.ObservedGeneration).To(Equal(apply.Generation))
	})
	h.WaitFor(machine, "the machine should be at rest", func(g Gomega) {
		g.Expect(machine.Status.ObservedGeneration).To(Equal(machine.Generation))
		g.Expect(conditions.GetReason(machine, infrav1.InstanceReadyCondition)).To(Equal("Ready"))
		g.Expect(conditions.IsTrue(machine, infrav1.ReadyCondition)).To(BeTrue())
	})
	h.ExpectNoWrites(h.settle, machine, apply, node)
}

func TestMachine_reportsProblemsOfItsNode(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	problem := func(reason string) {
		h.T.Helper()
		h.WaitFor(machine, "the problem should be "+reason, func(g Gomega) {
			if reason == "" {
				g.Expect(machine.Status.NodeProblem).To(BeNil())
				return
			}
			g.Expect(machine.Status.NodeProblem).To(HaveValue(HaveField("Reason", reason)))
		})
	}
	problem(infrav1.WaitingForNodeReason)
	node := h.join("worker")
	problem("")
	h.Expect(machine.Status.Version).To(Equal(nodestest.Version))
	h.WaitForCondition(machine, infrav1.VersionCurrentCondition, metav1.ConditionTrue, infrav1.VersionCurrentCondition)
	h.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionUnknown)).To(Succeed())
	problem(infrav1.NodeNotReadyReason)
	since := machine.Status.NodeProblem.Since
	h.Delete(node)
	problem(infrav1.NodeGoneReason)
	h.Expect(machine.Status.NodeProblem.Since).To(Equal(since), "the node has not worked since it was not ready")
	h.join("worker")
	problem("")

	controlPlane := h.Cluster.ControlPlane
	before := controlPlane.DeepCopy()
	controlPlane.Status.Version = "v1.34.0"
	h.Expect(env.Client.Status().Patch(t.Context(), controlPlane, client.MergeFrom(before))).To(Succeed())
	h.WaitForCondition(machine, infrav1.VersionCurrentCondition, metav1.ConditionFalse, infrav1.VersionBehindReason, "1.33", "1.34")

	apply := h.Workspace("worker")
	h.Update(apply, func() {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.OutputsAnnotation, `{"provider_id":"test:///other"}`)
	})
	problem(infrav1.ProviderIDChangedReason)
}

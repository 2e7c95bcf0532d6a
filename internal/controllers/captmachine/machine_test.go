package captmachine

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes/nodestest"
)

// deployment makes a MachineDeployment of Cluster API.
func (w *world) deployment(replicas int32) *clusterv1.MachineDeployment {
	w.t.Helper()
	w.create(&bootstrapv1.CAPTBootstrapConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"}})
	w.create(&infrav1.CAPTMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"},
		Spec: infrav1.CAPTMachineTemplateSpec{Template: infrav1.CAPTMachineTemplateResource{Spec: infrav1.CAPTMachineSpec{
			WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"},
		}}},
	})
	labels := map[string]string{"pool": "workers"}
	deployment := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"},
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
	w.create(deployment)
	return deployment
}

func (w *world) machines(g Gomega) []clusterv1.Machine {
	var list clusterv1.MachineList
	g.Expect(env.Client.List(w.t.Context(), &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

func (w *world) scale(deployment *clusterv1.MachineDeployment, replicas int32) {
	w.t.Helper()
	w.Eventually(func() error {
		if err := env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		deployment.Spec.Replicas = &replicas
		return env.Client.Update(w.t.Context(), deployment)
	}, patience, tick).Should(Succeed(), "nobody else writes all the time")
}

func TestMachineDeployment_drivesMachines(t *testing.T) {
	w := newWorld(t)
	w.ready()
	deployment := w.deployment(0)
	w.scale(deployment, 2)

	var machines []clusterv1.Machine
	w.Eventually(func(g Gomega) {
		machines = w.machines(g)
		g.Expect(machines).To(HaveLen(2))
		for _, m := range machines {
			g.Expect(m.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()), "%v", m.Status.Conditions)
			g.Expect(m.Spec.ProviderID).To(Equal(providerID(w.namespace, m.Spec.InfrastructureRef.Name)))
			g.Expect(m.Status.Addresses).To(ContainElement(clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}))
			g.Expect(m.Status.FailureDomain).To(Equal("ap-northeast-1a"))
		}
	}, patience, tick).Should(Succeed(), "Cluster API is told of the instances before any node has joined")

	for _, m := range machines {
		infra := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: m.Spec.InfrastructureRef.Name}}
		w.condition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
		w.condition(infra, infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason, infra.Spec.ProviderID)
		w.join(m.Spec.InfrastructureRef.Name)
		w.condition(infra, infrav1.NodeReadyCondition, metav1.ConditionTrue, "Ready")
		w.variables(m)
	}
	w.Eventually(func(g Gomega) {
		for _, m := range w.machines(g) {
			g.Expect(m.Status.NodeRef.Name).To(Equal(w.namespace+"-"+m.Spec.InfrastructureRef.Name), "%v", m.Status.Conditions)
		}
	}, patience, tick).Should(Succeed(), "Cluster API finds the nodes by the provider IDs")

	w.scale(deployment, 1)
	w.Eventually(func(g Gomega) { g.Expect(w.machines(g)).To(HaveLen(1)) }, patience, tick).Should(Succeed(), "one machine goes")
	w.Eventually(func(g Gomega) {
		var infra infrav1.CAPTMachineList
		g.Expect(env.Client.List(t.Context(), &infra, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(infra.Items).To(HaveLen(1))
		var applies infrav1.WorkspaceTemplateApplyList
		g.Expect(env.Client.List(t.Context(), &applies, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(applies.Items).To(HaveLen(2), "the control plane's and one machine's")
		g.Expect(w.nodes(g)).To(HaveLen(1))
	}, patience, tick).Should(Succeed(), "instance, workspace and node go with it")
	w.delete(deployment)
	w.gone(deployment, "nothing keeps the deployment")
}

// nodes are the names of the nodes of this test.
func (w *world) nodes(g Gomega) []string {
	var list corev1.NodeList
	g.Expect(env.Client.List(w.t.Context(), &list)).To(Succeed())
	var names []string
	for _, node := range list.Items {
		if strings.HasPrefix(node.Name, w.namespace) {
			names = append(names, node.Name)
		}
	}
	return names
}

// variables checks what the template of a driven machine was given.
func (w *world) variables(m clusterv1.Machine) {
	w.t.Helper()
	apply := w.apply(m.Spec.InfrastructureRef.Name)
	w.eventually(apply, "the workspace is there", func(g Gomega) {
		given := apply.Spec.Variables
		for name, want := range map[string]string{
			"name": m.Spec.InfrastructureRef.Name, "cluster_name": "production", "kubernetes_version": "1.33",
			"cluster_endpoint": "https://api.example.com", "cluster_certificate_authority_data": "Q0E=", "node_security_group_id": "sg-1",
			"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": `["subnet-1","subnet-2"]`,
			"bootstrap_secret_name": *m.Spec.Bootstrap.DataSecretName,
		} {
			g.Expect(given[name].String()).To(Equal(want), "%s", name)
		}
		g.Expect(given).NotTo(HaveKey("labels"))
		g.Expect(apply.Spec.RequiredOutputs).To(ConsistOf("provider_id"))
		g.Expect(apply.Spec.WriteConnectionSecretToRef.Name).To(Equal(apply.Name + "-connection"))
	})
}

func TestMachine_waitsForWhatItNeeds(t *testing.T) {
	w := newWorld(t)
	alone := w.machine("alone")
	w.condition(alone, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneReason, "production")

	driven := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "driven"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "production", Version: nodestest.Version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "CAPTBootstrapConfig", Name: "driven",
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachine", Name: "driven"},
		},
	}
	w.create(driven)
	infra := w.machine("driven")
	w.condition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForInfrastructureReason)
	w.Expect(w.cluster.Provision(t.Context())).To(Succeed())
	w.condition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneReason)
	w.Expect(w.cluster.Initialize(t.Context())).To(Succeed())
	w.condition(infra, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.WaitingForBootstrapDataReason, "Machine driven")
	w.condition(alone, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")

	w.create(&bootstrapv1.CAPTBootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "driven"}})
	w.condition(infra, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestMachine_isReadyWithItsNodeWhenItStandsAlone(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker", func(m *infrav1.CAPTMachine) { m.Spec.Labels = map[string]string{"a": "b"} })
	w.condition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason, "NodeReady")
	w.eventually(machine, "the instance is there without its node", func(g Gomega) {
		g.Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	})

	node := w.join("worker")
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	w.Expect(machine.Status.NodeName).To(Equal(node.Name))
	w.rest(machine, w.apply("worker"))

	w.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionFalse)).To(Succeed())
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.NodeNotReadyReason, node.Name, "the test says so")
	w.Expect(nodestest.SetReady(t.Context(), env.Client, node, corev1.ConditionTrue)).To(Succeed())
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")

	w.delete(node)
	w.condition(machine, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForNodeReason)
	w.Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "what was there once was there")
}

func TestMachine_saysWhenItsInstanceWasReplaced(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker")
	w.condition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")

	apply := w.apply("worker")
	w.eventually(apply, "the workspace tells of another instance", func(g Gomega) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, nodestest.OutputsAnnotation, `{"provider_id":"test:///other"}`)
		g.Expect(env.Client.Update(t.Context(), apply)).To(Succeed())
	})
	w.condition(machine, infrav1.InstanceReadyCondition, metav1.ConditionFalse, infrav1.ProviderIDChangedReason, "test:///other", "delete this CAPTMachine")
	w.Expect(machine.Spec.ProviderID).To(Equal(providerID(w.namespace, "worker")))
}

func TestMachine_isLeftAloneWhilePaused(t *testing.T) {
	w := newWorld(t)
	w.ready()
	machine := w.machine("worker", func(m *infrav1.CAPTMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	w.condition(machine, infrav1.PausedCondition, metav1.ConditionTrue, "Paused")
	w.gone(w.apply("worker"), "nothing is made")

	w.eventually(machine, "the pause ends", func(g Gomega) {
		machine.Annotations = nil
		g.Expect(env.Client.Update(t.Context(), machine)).To(Succeed())
	})
	w.condition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
}

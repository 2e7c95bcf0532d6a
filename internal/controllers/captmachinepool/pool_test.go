package captmachinepool

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestMachinePool_drivesAPool(t *testing.T) {
	w := newWorld(t)
	owner, infra := w.pool(2)

	w.eventually(owner, "Cluster API is told of the nodes", func(g Gomega) {
		g.Expect(owner.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(w.namespace, 0), providerID(w.namespace, 1)}))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(2))))
	})
	w.condition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	w.Expect(infra.Spec.ProviderID).To(Equal("group-spot"))
	w.Expect(infra.Status.Replicas).To(HaveValue(Equal(int32(2))))
	w.given(map[string]string{
		"name": "spot", "cluster_name": "production", "desired_size": "2", "min_size": "2", "max_size": "2",
		"subnet_ids": `["subnet-1","subnet-2"]`, "kubernetes_version": "1.33", "capacity_type": "ON_DEMAND",
	})

	w.join(0)
	w.join(1)
	w.condition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	w.eventually(owner, "Cluster API finds the nodes", func(g Gomega) { g.Expect(owner.Status.NodeRefs).To(HaveLen(2)) })
	w.rest(infra, w.apply())

	w.scale(owner, 1)
	w.eventually(owner, "one node goes", func(g Gomega) {
		g.Expect(owner.Spec.ProviderIDList).To(Equal([]string{providerID(w.namespace, 0)}))
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(1))))
		g.Expect(owner.Status.NodeRefs).To(HaveLen(1))
	})

	w.Expect(env.Client.Delete(t.Context(), owner)).To(Succeed())
	w.gone(infra, "the pool goes with its MachinePool")
	w.gone(w.apply(), "the node group is destroyed")
	w.gone(owner, "nothing keeps it")
}

// given checks what the template was given.
func (w *world) given(want map[string]string) {
	w.t.Helper()
	apply := w.apply()
	w.eventually(apply, "the workspace is as wanted", func(g Gomega) {
		for name, value := range want {
			g.Expect(apply.Spec.Variables[name].String()).To(Equal(value), "%s", name)
		}
		g.Expect(apply.Spec.RequiredOutputs).To(ConsistOf("provider_id_list"))
	})
}

func (w *world) scale(owner *clusterv1.MachinePool, replicas int32) {
	w.t.Helper()
	w.eventually(owner, "nobody else writes all the time", func(g Gomega) {
		owner.Spec.Replicas = &replicas
		g.Expect(env.Client.Update(w.t.Context(), owner)).To(Succeed())
	})
}

func TestPool_readsItsNodesAnewWhenTheCloudReplacesOne(t *testing.T) {
	w := newWorld(t)
	_, infra := w.pool(2)
	w.condition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	first := w.join(0)
	w.join(1)
	w.condition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	apply := w.apply()
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	runs := apply.Status.Runs

	// Nobody has told CAPT of the replacement: only the nodes have changed.
	w.Expect(env.Client.Delete(t.Context(), first)).To(Succeed())
	w.join(2)
	w.eventually(apply, "a run has been asked for", func(g Gomega) {
		g.Expect(apply.Annotations[infrav1.RunRequestedAnnotation]).To(HavePrefix("nodes-"))
		g.Expect(apply.Status.HandledRequest).To(Equal(apply.Annotations[infrav1.RunRequestedAnnotation]))
		g.Expect(apply.Status.Runs).To(BeNumerically(">", runs))
	})
	w.eventually(infra, "both changes have been seen, and a run did not help", func(g Gomega) {
		c := conditions.Get(infra, infrav1.MembersKnownCondition)
		g.Expect(c.Reason).To(Equal(infrav1.WaitingForNodeReason))
		g.Expect(c.Message).To(And(ContainSubstring("not in the cluster: "+providerID(w.namespace, 0)),
			ContainSubstring("not among the outputs: "+providerID(w.namespace, 2)), ContainSubstring("found the same")))
	})
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	runs = apply.Status.Runs

	w.tell(`{"provider_id_list":["` + providerID(w.namespace, 1) + `","` + providerID(w.namespace, 2) + `"]}`)
	w.condition(infra, infrav1.MembersKnownCondition, metav1.ConditionTrue, "MembersKnown")
	w.eventually(infra, "the list is current", func(g Gomega) {
		g.Expect(infra.Spec.ProviderIDList).To(Equal([]string{providerID(w.namespace, 1), providerID(w.namespace, 2)}))
	})
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	w.Expect(apply.Status.Runs).To(Equal(runs), "what agrees asks for nothing")
}

func TestPool_leavesItsSizeToAnAutoscaler(t *testing.T) {
	w := newWorld(t)
	owner, infra := w.pool(5, func(owner *clusterv1.MachinePool) {
		owner.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "cluster-autoscaler"}
	})
	w.condition(infra, infrav1.ReplicasReadyCondition, metav1.ConditionTrue, infrav1.ReplicasManagedElsewhereReason)
	apply := w.apply()
	w.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
	w.Expect(apply.Spec.Variables).NotTo(HaveKey("desired_size"))

	w.tell(`{"provider_id_list":["` + providerID(w.namespace, 7) + `"]}`)
	w.eventually(owner, "what is there counts, not what is wanted", func(g Gomega) {
		g.Expect(owner.Status.Replicas).To(HaveValue(Equal(int32(1))))
	})
	w.Expect(owner.Spec.Replicas).To(HaveValue(Equal(int32(5))), "the MachinePool is Cluster API's")
	w.condition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
}

func TestPool_saysWhenItCannotHaveWhatIsWanted(t *testing.T) {
	w := newWorld(t)
	owner, infra := w.pool(1)
	w.condition(infra, infrav1.ReadyCondition, metav1.ConditionTrue, "Ready")
	w.eventually(infra, "the bounds are set", func(g Gomega) {
		infra.Spec.Scaling = &infrav1.PoolScaling{MinSize: new(int32(1)), MaxSize: new(int32(3))}
		g.Expect(env.Client.Update(t.Context(), infra)).To(Succeed())
	})
	w.condition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, "Ready")
	w.scale(owner, 4)
	w.condition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionFalse, infrav1.ReplicasOutOfBoundsReason)
	w.given(map[string]string{"desired_size": "1", "max_size": "3"})
	w.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "what was there once was there")

	w.scale(owner, 3)
	w.condition(infra, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, "Ready")
	w.given(map[string]string{"desired_size": "3", "max_size": "3"})
}

func TestPool_waitsForItsMachinePool(t *testing.T) {
	w := newWorld(t)
	infra := &infrav1.CAPTMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "lonely"},
		Spec:       infrav1.CAPTMachinePoolSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "group"}},
	}
	w.create(infra)
	w.condition(infra, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForMachinePoolReason)
	w.Expect(env.Client.Delete(t.Context(), infra)).To(Succeed())
	w.gone(infra, "there is nothing to take away")
	var nodes corev1.NodeList
	w.Expect(env.Client.List(t.Context(), &nodes, client.MatchingLabels{"group": w.namespace})).To(Succeed())
	w.Expect(nodes.Items).To(BeEmpty())
}

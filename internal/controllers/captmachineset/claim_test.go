package captmachineset

import (
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// machineIn returns a machine without a controller.
func machineIn(namespace, name string, labels map[string]string, owners ...metav1.OwnerReference) *infrav1.CAPTMachine {
	return &infrav1.CAPTMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: owners},
		Spec:       infrav1.CAPTMachineSpec{WorkspaceTemplateRef: infrav1.TemplateReference{Name: "node"}, InstanceType: "m7g.large"},
	}
}

func TestSet_adoptsMatchingOrphans(t *testing.T) {
	g := NewWithT(t)
	namespace := newCluster(t).Namespace
	matching := map[string]string{"pool": "workers"}
	orphan := create(t, machineIn(namespace, "orphan", matching))
	foreign := []*infrav1.CAPTMachine{
		create(t, machineIn(namespace, "other-labels", map[string]string{"pool": "others"})),
		create(t, machineIn(namespace, "other-cluster", map[string]string{"pool": "workers", clusterv1.ClusterNameLabel: "staging"})),
		create(t, machineIn(namespace, "owned-by-machine", matching, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m", Controller: new(true),
		})),
		create(t, machineIn(namespace, "created-for-machine", matching, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "ms", UID: "ms",
		})),
	}

	set := create(t, setIn(namespace, 2))

	waitForMachines(t, namespace, len(foreign)+2)
	tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionTrue, infrav1.ReplicasInSyncCondition)
	tester(t).WaitFor(orphan, "it should count as one of the two", func(g Gomega) {
		g.Expect(metav1.IsControlledBy(orphan, set)).To(BeTrue())
		g.Expect(orphan.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"))
	})
	for _, m := range foreign {
		tester(t).Get(m)
		g.Expect(metav1.IsControlledBy(m, set)).To(BeFalse(), m.Name)
	}
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
		g.Expect(all.Items).To(ContainElement(And(HaveField("Reason", "MachineAdopted"), HaveField("Note", ContainSubstring("orphan")))))
	}).Should(Succeed())

	// A later orphan is adopted too, and one machine is deleted.
	create(t, machineIn(namespace, "late", matching))
	waitForMachines(t, namespace, len(foreign)+2)
}

func TestSet_releasesMachinesThatNoLongerMatch(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 2)
	quarantined := waitForMachines(t, set.Namespace, 2)[0]

	update(t, quarantined, func(m *infrav1.CAPTMachine) { m.Labels["pool"] = "quarantine" })

	waitForMachines(t, set.Namespace, 3)
	tester(t).Get(quarantined)
	g.Expect(quarantined.OwnerReferences).To(BeEmpty())
	g.Expect(quarantined.Labels).To(HaveKeyWithValue("pool", "quarantine"))
	tester(t).WaitFor(set, "the released machine should not count", func(g Gomega) {
		g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(2)))
	})
}

func TestSet_updatesMachinesInPlace(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 1, func(s *infrav1.CAPTMachineSet) {
		s.Spec.Template.ObjectMeta.Labels["tier"] = "one"
		s.Spec.Template.ObjectMeta.Annotations = map[string]string{"note": "old", "only-old": "x"}
	})
	m := waitForMachines(t, set.Namespace, 1)[0]
	update(t, m, func(m *infrav1.CAPTMachine) {
		m.Labels["mine"], m.Annotations["mine"] = "kept", "kept"
		m.Spec.ProviderID = "aws:///a/i-1"
	})

	update(t, set, func(s *infrav1.CAPTMachineSet) {
		delete(s.Spec.Template.ObjectMeta.Labels, "tier")
		s.Spec.Template.ObjectMeta.Annotations = map[string]string{"note": "new"}
		s.Spec.Template.Spec.Labels = map[string]string{"node": "label"}
		s.Spec.Template.Spec.Taints = []infrav1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
		s.Spec.Template.Spec.Tags = map[string]string{"cost": "7"}
		s.Spec.Template.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeSkip}
		s.Spec.Template.Spec.InstanceType = "m7g.xlarge"
	})

	tester(t).WaitFor(m, "the machine should be updated", func(g Gomega) {
		g.Expect(m.Spec.Taints).To(HaveLen(1))
	})
	g.Expect(m.Labels).To(And(Not(HaveKey("tier")), HaveKeyWithValue("mine", "kept"), HaveKeyWithValue("pool", "workers")))
	g.Expect(m.Annotations).To(And(HaveKeyWithValue("note", "new"), Not(HaveKey("only-old")), HaveKeyWithValue("mine", "kept")))
	g.Expect(m.Spec.Labels).To(HaveKeyWithValue("node", "label"))
	g.Expect(m.Spec.Tags).To(HaveKeyWithValue("cost", "7"))
	g.Expect(m.Spec.Drain).To(HaveField("Mode", infrav1.DrainModeSkip))
	g.Expect(m.Spec.ProviderID).To(Equal("aws:///a/i-1"))
	g.Expect(m.Spec.InstanceType).To(Equal("m7g.large"), "another type requires another machine")
	tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionTrue, infrav1.ReplicasInSyncCondition)
	g.Expect(set.Status.FullyLabeledReplicas).To(HaveValue(BeEquivalentTo(1)))
}

func TestSet_waitsForDeletionOfMachines(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3)
	found := waitForMachines(t, set.Namespace, 3)
	unrelated := create(t, machineIn(set.Namespace, "unrelated", map[string]string{"pool": "others"}))
	for _, m := range found[:2] {
		update(t, m, func(m *infrav1.CAPTMachine) { m.Finalizers = []string{"test.capt.appthrust.io/drain"} })
	}

	g.Expect(env.Client.Delete(t.Context(), set)).To(Succeed())

	tester(t).WaitFor(set, "the set should wait for its machines", func(g Gomega) {
		c := meta.FindStatusCondition(set.Status.Conditions, infrav1.ReplicasInSyncCondition)
		g.Expect(c).To(And(HaveField("Reason", infrav1.DeletingReason), HaveField("Message", HavePrefix("Waiting for 2 machines to be deleted: "))))
		ready := meta.FindStatusCondition(set.Status.Conditions, infrav1.ReadyCondition)
		g.Expect(ready).To(HaveField("Reason", infrav1.DeletingReason))
	})
	for _, m := range found[:2] {
		update(t, m, func(m *infrav1.CAPTMachine) { m.Finalizers = nil })
	}
	tester(t).WaitUntilGone(set, "it should be deleted")
	g.Expect(list(t, set.Namespace)).To(ConsistOf(HaveField("Name", unrelated.Name)))
}

func TestSet_keepsMachinesWhenOrphaned(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 2)
	waitForMachines(t, set.Namespace, 2)

	g.Expect(env.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())

	// There is no garbage collector to remove its finalizer.
	tester(t).WaitFor(set, "only the finalizer of the garbage collector should be left", func(g Gomega) {
		g.Expect(set.Finalizers).To(ConsistOf(metav1.FinalizerOrphanDependents))
	})
	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
}

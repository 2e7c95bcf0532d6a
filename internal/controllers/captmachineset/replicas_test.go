package captmachineset

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

func TestSet_createsMachines(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3, func(s *infrav1.CAPTMachineSet) {
		s.Spec.Template.ObjectMeta.Annotations = map[string]string{"team": "a"}
		s.Spec.Template.Spec.Tags = map[string]string{"cost": "42"}
	})

	found := waitForMachines(t, set.Namespace, 3)

	tester(t).Get(set)
	for _, m := range found {
		g.Expect(m.Name).To(MatchRegexp(`^workers-[a-z0-9]{6}$`))
		g.Expect(m.Labels).To(And(HaveKeyWithValue("pool", "workers"), HaveKeyWithValue(clusterv1.ClusterNameLabel, "production"),
			HaveKeyWithValue(clusterv1.WatchLabel, byManager)))
		g.Expect(m.Annotations).To(HaveKeyWithValue("team", "a"))
		g.Expect(metav1.IsControlledBy(m, set)).To(BeTrue())
		g.Expect(m.Spec.InstanceType).To(Equal("m7g.large"))
		g.Expect(m.Spec.Tags).To(HaveKeyWithValue("cost", "42"))
	}
	tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionTrue, infrav1.ReplicasInSyncCondition)
	tester(t).WaitForCondition(set, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.MachinesNotReadyReason)

	setReady(t, found[0], metav1.ConditionTrue)
	c := tester(t).WaitForCondition(set, infrav1.MachinesReadyCondition, metav1.ConditionFalse, infrav1.MachinesNotReadyReason)
	g.Expect(c.Message).To(ContainSubstring("machines are not ready"))
	for _, m := range found[1:] {
		setReady(t, m, metav1.ConditionTrue)
	}
	tester(t).WaitForCondition(set, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyCondition)
	g.Expect(set.Status).To(And(HaveField("Replicas", HaveValue(BeEquivalentTo(3))), HaveField("ReadyReplicas", HaveValue(BeEquivalentTo(3))),
		HaveField("AvailableReplicas", HaveValue(BeEquivalentTo(3))), HaveField("FullyLabeledReplicas", HaveValue(BeEquivalentTo(3))),
		HaveField("Selector", "pool=workers"), HaveField("ObservedGeneration", set.Generation)))
}

func TestSet_followsKubectlScale(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 1)
	waitForMachines(t, set.Namespace, 1)
	assets, err := testenv.Assets()
	g.Expect(err).NotTo(HaveOccurred())
	scale := func(n string) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig", env.Kubeconfig,
			"-n", set.Namespace, "scale", "captmachineset/workers", "--replicas", n).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}

	scale("4")
	waitForMachines(t, set.Namespace, 4)
	scale("0")
	waitForMachines(t, set.Namespace, 0)

	tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionTrue, infrav1.ReplicasInSyncCondition)
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(0)))
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(set.Namespace))).To(Succeed())
		g.Expect(all.Items).To(ContainElements(
			And(HaveField("Reason", "ScaledUp"), HaveField("Note", ContainSubstring("Created 3 machines"))),
			And(HaveField("Reason", "ScaledDown"), HaveField("Note", ContainSubstring("Deleted 4 machines")), HaveField("Type", corev1.EventTypeNormal)),
		))
	}).Should(Succeed(), "scaling should be announced")
}

func TestSet_deletesMarkedThenUnreadyMachinesFirst(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 4, func(s *infrav1.CAPTMachineSet) { s.Spec.DeletePolicy = infrav1.OldestMachineDeletePolicy })
	found := waitForMachines(t, set.Namespace, 4)
	marked, unready := found[0], found[1]
	for _, m := range []*infrav1.CAPTMachine{found[0], found[2], found[3]} {
		setReady(t, m, metav1.ConditionTrue)
	}
	update(t, marked, func(m *infrav1.CAPTMachine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.DeleteMachineAnnotation, "")
	})

	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(3)) })
	g.Expect(waitForMachines(t, set.Namespace, 3)).NotTo(ContainElement(HaveField("Name", marked.Name)), "the marked machine should go first")

	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(2)) })
	g.Expect(waitForMachines(t, set.Namespace, 2)).NotTo(ContainElement(HaveField("Name", unready.Name)), "the machine that is not ready should go next")
}

func TestSet_replacesDeletedMachines(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 2)
	deleted := waitForMachines(t, set.Namespace, 2)[0]
	update(t, deleted, func(m *infrav1.CAPTMachine) { m.Finalizers = []string{"test.capt.appthrust.io/drain"} })

	g.Expect(env.Client.Delete(t.Context(), deleted)).To(Succeed())

	g.Expect(waitForMachines(t, set.Namespace, 2)).NotTo(ContainElement(HaveField("Name", deleted.Name)))
	c := tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionFalse, infrav1.ScalingDownReason)
	g.Expect(c.Message).To(ContainSubstring(deleted.Name))
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(2)), "machines being deleted should not count")

	update(t, deleted, func(m *infrav1.CAPTMachine) { m.Finalizers = nil })
	tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionTrue, infrav1.ReplicasInSyncCondition)
}

func TestSet_createsNothingWhileDisabled(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 2, func(s *infrav1.CAPTMachineSet) {
		s.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
	})

	c := tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionFalse, infrav1.CreationDisabledReason)
	g.Expect(c.Message).To(ContainSubstring(clusterv1.DisableMachineCreateAnnotation))
	g.Expect(list(t, set.Namespace)).To(BeEmpty())

	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Annotations = nil })
	waitForMachines(t, set.Namespace, 2)
}

func TestSet_countsAvailableMachinesAfterMinReady(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 1, func(s *infrav1.CAPTMachineSet) { s.Spec.MinReadySeconds = new(int32(3600)) })
	m := waitForMachines(t, set.Namespace, 1)[0]

	ready := time.Now()
	setReady(t, m, metav1.ConditionTrue)

	tester(t).WaitFor(set, "the machine should be ready", func(g Gomega) {
		g.Expect(set.Status.ReadyReplicas).To(HaveValue(BeEquivalentTo(1)))
	})
	g.Expect(set.Status.AvailableReplicas).To(HaveValue(BeEquivalentTo(0)), "the machine has just become ready")
	seconds := int32(time.Since(ready).Seconds()) + 3
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.MinReadySeconds = &seconds })
	tester(t).WaitFor(set, "the machine should become available without another change", func(g Gomega) {
		g.Expect(set.Status.AvailableReplicas).To(HaveValue(BeEquivalentTo(1)))
	})
}

func TestSet_refusesTemplateThatSelectorDoesNotMatch(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 1, func(s *infrav1.CAPTMachineSet) {
		s.Spec.Template.ObjectMeta.Labels = map[string]string{"pool": "others"}
	})

	c := tester(t).WaitForCondition(set, infrav1.ReplicasInSyncCondition, metav1.ConditionFalse, infrav1.SelectorMismatchReason)

	g.Expect(c.Message).To(ContainSubstring("pool=workers"))
	g.Expect(list(t, set.Namespace)).To(BeEmpty(), "the set could not find the machines")
}

func TestSet_waitsForCluster(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	set := create(t, setIn(namespace, 1))

	c := tester(t).WaitForCondition(set, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForClusterReason)
	g.Expect(c.Message).To(ContainSubstring("production"))
	g.Expect(list(t, namespace)).To(BeEmpty())

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "production"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "production"}
	create(t, cluster)
	waitForMachines(t, namespace, 1)
	// The reconcile that creates the machine writes the set afterwards.
	g.Eventually(func() []metav1.OwnerReference {
		tester(t).Get(set)
		return set.OwnerReferences
	}).Should(ConsistOf(HaveField("UID", cluster.UID)), "the Cluster should own a set without a controller")
}

func TestSet_pausesWithCluster(t *testing.T) {
	g := NewWithT(t)
	cluster := newCluster(t)
	set := create(t, setIn(cluster.Namespace, 1))
	waitForMachines(t, set.Namespace, 1)

	update(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	tester(t).WaitFor(set, "the set should be paused", func(g Gomega) {
		g.Expect(meta.IsStatusConditionTrue(set.Status.Conditions, infrav1.PausedCondition)).To(BeTrue())
	})
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(3)) })
	// The condition is about the latest generation: the controller has seen the change.
	tester(t).WaitForCondition(set, infrav1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	g.Expect(list(t, set.Namespace)).To(HaveLen(1), "paused")

	update(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	waitForMachines(t, set.Namespace, 3)
}

func TestSet_writesNothingAtRest(t *testing.T) {
	g := NewWithT(t)
	set := newSet(t, 3)
	for _, m := range waitForMachines(t, set.Namespace, 3) {
		setReady(t, m, metav1.ConditionTrue)
	}
	tester(t).WaitForCondition(set, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyCondition)
	versions := func() string {
		tester(t).Get(set)
		all := []string{set.ResourceVersion}
		for _, m := range list(t, set.Namespace) {
			all = append(all, m.Name+m.ResourceVersion)
		}
		return strings.Join(all, " ")
	}
	settle(t)

	// Another label triggers a reconcile, which changes nothing.
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Labels["other"] = "label" })
	before := versions()
	settle(t)
	g.Expect(versions()).To(Equal(before))
}

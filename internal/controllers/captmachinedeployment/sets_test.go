package captmachinedeployment

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/testenv"
)

func TestDeployment_limitsHistory(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 1, func(d *infrav1.CAPTMachineDeployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) })
	waitRolledOut(t, d)
	for _, name := range []string{"m7g.xlarge", "m7g.2xlarge", "m7g.4xlarge"} {
		update(t, d, instanceType(name))
		waitRolledOut(t, d)
	}

	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"3: 0 m7g.2xlarge", "4: 1 m7g.4xlarge"}))
}

func TestDeployment_usesAnotherNameOnCollision(t *testing.T) {
	g := NewWithT(t)
	d := deploymentIn(newCluster(t).Namespace, 1)
	taken := &infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: machines.SetName(d.Name, machines.Hash(&d.Spec.Template.Spec, nil)),
	}}
	taken.Spec = infrav1.CAPTMachineSetSpec{
		ClusterName: "production", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "others"}},
		Template: infrav1.MachineTemplate{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "others"}}, Spec: d.Spec.Template.Spec},
	}
	create(t, taken)
	create(t, d)
	simulateMachines(t, d.Namespace)

	waitRolledOut(t, d)

	g.Expect(d.Status.CollisionCount).To(HaveValue(BeEquivalentTo(1)))
	g.Expect(setsOf(t, d.Namespace)).To(ConsistOf(HaveField("Name", taken.Name),
		HaveField("Name", machines.SetName(d.Name, machines.Hash(&d.Spec.Template.Spec, new(int32(1)))))))
	tester(t).Get(taken)
	g.Expect(taken.OwnerReferences).To(BeEmpty())
}

func TestDeployment_adoptsSetOfItsTemplate(t *testing.T) {
	g := NewWithT(t)
	d := deploymentIn(newCluster(t).Namespace, 2)
	orphan := &infrav1.CAPTMachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "by-hand", Labels: map[string]string{"pool": "workers", clusterv1.WatchLabel: byManager}},
		Spec: infrav1.CAPTMachineSetSpec{
			ClusterName: "production", Replicas: new(int32(1)), Selector: *d.Spec.Selector.DeepCopy(), Template: *d.Spec.Template.DeepCopy(),
		},
	}
	create(t, orphan)
	create(t, d)
	simulateMachines(t, d.Namespace)

	waitRolledOut(t, d)

	sets := setsOf(t, d.Namespace)
	g.Expect(sets).To(ConsistOf(HaveField("Name", "by-hand")))
	g.Expect(metav1.IsControlledBy(sets[0], d)).To(BeTrue())
	g.Expect(sets[0].Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))

	update(t, sets[0], func(s *infrav1.CAPTMachineSet) { s.Labels["pool"] = "mine" })
	g.Eventually(func(g Gomega) {
		tester(t).Get(sets[0])
		g.Expect(metav1.GetControllerOf(sets[0])).To(BeNil())
	}).Should(Succeed(), "a set that no longer matches should be released")
	g.Eventually(func() int { return len(setsOf(t, d.Namespace)) }).Should(Equal(2))
}

func TestDeployment_replacesDeletedSetAtOnce(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2)
	waitRolledOut(t, d)
	draining := alive(t, d.Namespace)
	for _, m := range draining {
		update(t, m, func(m *infrav1.CAPTMachine) { m.Finalizers = []string{"test.capt.appthrust.io/drain"} })
	}

	deleted := setsOf(t, d.Namespace)[0]
	g.Expect(env.Client.Delete(t.Context(), deleted)).To(Succeed())

	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(And(HaveLen(2), HaveEach(
		HaveField("Name", Not(BeElementOf(draining[0].Name, draining[1].Name))))), "pods need other nodes before a node can be drained")
	waitRolledOut(t, d)
	for _, m := range draining {
		update(t, m, func(m *infrav1.CAPTMachine) { m.Finalizers = nil })
	}
	tester(t).WaitUntilGone(deleted, "it should be deleted")
}

func TestDeployment_waitsForDeletionOfSets(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2)
	waitRolledOut(t, d)
	held := alive(t, d.Namespace)[0]
	update(t, held, func(m *infrav1.CAPTMachine) { m.Finalizers = []string{"test.capt.appthrust.io/drain"} })

	g.Expect(env.Client.Delete(t.Context(), d)).To(Succeed())

	tester(t).WaitFor(d, "the deployment should wait for its sets", func(g Gomega) {
		c := meta.FindStatusCondition(d.Status.Conditions, infrav1.ReadyCondition)
		g.Expect(c).To(And(HaveField("Reason", infrav1.DeletingReason), HaveField("Message", HavePrefix("Waiting for 1 machines of 1 sets"))))
	})
	update(t, held, func(m *infrav1.CAPTMachine) { m.Finalizers = nil })
	tester(t).WaitUntilGone(d, "it should be deleted")
	g.Expect(setsOf(t, d.Namespace)).To(BeEmpty())
	g.Expect(alive(t, d.Namespace)).To(BeEmpty())
}

func TestDeployment_keepsSetsWhenOrphaned(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 1)
	waitRolledOut(t, d)

	g.Expect(env.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())

	// There is no garbage collector to remove its finalizer.
	tester(t).WaitFor(d, "only the finalizer of the garbage collector should be left", func(g Gomega) {
		g.Expect(d.Finalizers).To(ConsistOf(metav1.FinalizerOrphanDependents))
	})
	g.Expect(setsOf(t, d.Namespace)).To(ConsistOf(HaveField("DeletionTimestamp", BeNil())))
}

func TestDeployment_followsKubectlScale(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 1)
	waitRolledOut(t, d)
	assets, err := testenv.Assets()
	g.Expect(err).NotTo(HaveOccurred())

	out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig", env.Kubeconfig,
		"-n", d.Namespace, "scale", "captmachinedeployment/workers", "--replicas", "3").CombinedOutput()

	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(HaveLen(3))
	waitRolledOut(t, d)
	g.Expect(d.Status.Revision).To(BeEquivalentTo(1), "scaling should not create a revision")
}

func TestDeployment_waitsForClusterAndPausesWithIt(t *testing.T) {
	g := NewWithT(t)
	d := create(t, deploymentIn(env.Namespace(t), 1))
	simulateMachines(t, d.Namespace)
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForClusterReason)
	g.Expect(setsOf(t, d.Namespace)).To(BeEmpty())

	cluster := create(t, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "production"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "production",
		}},
	})
	waitRolledOut(t, d)

	update(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	tester(t).WaitForCondition(d, infrav1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	update(t, d, instanceType("m7g.xlarge"))
	// The condition is about the latest generation: the controller has seen the change.
	tester(t).WaitForCondition(d, infrav1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	g.Expect(setsOf(t, d.Namespace)).To(HaveLen(1), "paused")

	update(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 0 m7g.large", "2: 1 m7g.xlarge"}))
}

func TestDeployment_writesNothingAtRest(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2)
	waitRolledOut(t, d)
	update(t, d, instanceType("m7g.xlarge"))
	waitRolledOut(t, d)
	versions := func() string {
		tester(t).Get(d)
		all := []string{d.ResourceVersion}
		for _, set := range setsOf(t, d.Namespace) {
			all = append(all, set.Name+set.ResourceVersion)
		}
		for _, m := range alive(t, d.Namespace) {
			all = append(all, m.Name+m.ResourceVersion)
		}
		return strings.Join(all, " ")
	}
	for _, set := range setsOf(t, d.Namespace) {
		tester(t).WaitForCondition(set, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyCondition)
	}
	// The controllers handle a new deployment after earlier changes.
	settle := func() { waitRolledOut(t, newDeployment(t, 1)) }
	settle()

	touch(t, d)
	before := versions()
	settle()
	g.Expect(versions()).To(Equal(before), "a reconcile without a change should not write")
}

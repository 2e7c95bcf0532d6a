package captmachinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
)

func TestDeployment_createsSetForTemplate(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 3, func(d *infrav1.CAPTMachineDeployment) { d.Spec.MinReadySeconds = new(int32(1)) })

	waitRolledOut(t, d)

	sets := setsOf(t, d.Namespace)
	g.Expect(sets).To(HaveLen(1))
	hash := machines.Hash(&d.Spec.Template.Spec, nil)
	g.Expect(sets[0].Name).To(Equal("workers-" + hash))
	g.Expect(metav1.IsControlledBy(sets[0], d)).To(BeTrue())
	g.Expect(sets[0].Spec.Selector.MatchLabels).To(And(HaveKeyWithValue("pool", "workers"), HaveKeyWithValue(infrav1.MachineTemplateHashLabel, hash)))
	g.Expect(sets[0].Annotations).To(HaveKeyWithValue(infrav1.RevisionAnnotation, "1"))
	g.Expect(sets[0].Labels).To(And(HaveKeyWithValue(clusterv1.WatchLabel, byManager), HaveKeyWithValue(clusterv1.ClusterNameLabel, "production")))
	g.Expect(sets[0].Spec.MinReadySeconds).To(HaveValue(BeEquivalentTo(1)))
	for _, m := range alive(t, d.Namespace) {
		g.Expect(m.Labels).To(And(HaveKeyWithValue(infrav1.MachineTemplateHashLabel, hash), HaveKeyWithValue(clusterv1.ClusterNameLabel, "production")))
	}
	three := HaveValue(BeEquivalentTo(3))
	g.Expect(d.Status).To(And(HaveField("Replicas", three), HaveField("UpdatedReplicas", three), HaveField("ReadyReplicas", three),
		HaveField("AvailableReplicas", three), HaveField("UnavailableReplicas", HaveValue(BeEquivalentTo(0))), HaveField("Revision", BeEquivalentTo(1)),
		HaveField("Selector", "pool=workers"), HaveField("ObservedGeneration", d.Generation)))
	g.Expect(d.Status.LastProgressAt.Time).To(BeTemporally("~", clock(), time.Minute))
	g.Expect(meta.IsStatusConditionTrue(d.Status.Conditions, infrav1.AvailableCondition)).To(BeTrue())
}

func TestDeployment_replacesMachinesWhenTemplateChanges(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 3)
	waitRolledOut(t, d)

	update(t, d, instanceType("m7g.xlarge"))
	waitRolledOut(t, d)

	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 0 m7g.large", "2: 3 m7g.xlarge"}), "the old set should stay for a rollback")
	g.Expect(alive(t, d.Namespace)).To(And(HaveLen(3), HaveEach(HaveField("Spec.InstanceType", "m7g.xlarge"))))
	g.Expect(d.Status.Revision).To(BeEquivalentTo(2))
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(d.Namespace))).To(Succeed())
		g.Expect(all.Items).To(ContainElements(HaveField("Reason", "SetCreated"), HaveField("Reason", "RolloutComplete"),
			And(HaveField("Reason", "ScaledUp"), HaveField("Regarding.Kind", "CAPTMachineDeployment")),
			And(HaveField("Reason", "ScaledDown"), HaveField("Regarding.Kind", "CAPTMachineDeployment"))))
	}).Should(Succeed())
}

func TestDeployment_updatesMachinesInPlace(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2)
	waitRolledOut(t, d)
	before := alive(t, d.Namespace)

	update(t, d, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Template.ObjectMeta.Labels["tier"] = "two"
		d.Spec.Template.ObjectMeta.Annotations = map[string]string{"note": "new"}
		d.Spec.Template.Spec.Labels = map[string]string{"node": "label"}
		d.Spec.Template.Spec.Taints = []infrav1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
		d.Spec.Template.Spec.Tags = map[string]string{"cost": "7"}
		d.Spec.Template.Spec.Drain = &infrav1.DrainPolicy{Mode: infrav1.DrainModeSkip}
	})

	for _, m := range before {
		tester(t).WaitFor(m, "the existing machine should be updated", func(g Gomega) {
			g.Expect(m.Labels).To(HaveKeyWithValue("tier", "two"))
			g.Expect(m.Annotations).To(HaveKeyWithValue("note", "new"))
			g.Expect(m.Spec).To(And(HaveField("Labels", HaveKeyWithValue("node", "label")), HaveField("Taints", HaveLen(1)),
				HaveField("Tags", HaveKeyWithValue("cost", "7")), HaveField("Drain.Mode", infrav1.DrainModeSkip)))
		})
	}
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 2 m7g.large"}))
	g.Expect(alive(t, d.Namespace)).To(HaveLen(2))
}

func TestDeployment_rollsBack(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Template.Spec.Tags = map[string]string{"cost": "1"} })
	waitRolledOut(t, d)
	update(t, d, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Template.Spec.InstanceType, d.Spec.Template.Spec.Tags = "m7g.xlarge", map[string]string{"other": "2"}
	})
	waitRolledOut(t, d)

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = new(int64(0)) })
	tester(t).WaitFor(d, "spec.rollbackTo should be cleared", func(g Gomega) {
		g.Expect(d.Spec.RollbackTo).To(BeNil())
	})
	g.Expect(d.Spec.Template.Spec.InstanceType).To(Equal("m7g.large"))
	g.Expect(d.Spec.Template.Spec.Tags).To(Equal(map[string]string{"cost": "1"}))
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"2: 0 m7g.xlarge", "3: 2 m7g.large"}), "the set should be reused with a new revision")
	g.Expect(d.Status.Revision).To(BeEquivalentTo(3))

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = new(int64(2)) })
	tester(t).WaitFor(d, "the revision should be 4", func(g Gomega) {
		g.Expect(d.Status.Revision).To(BeEquivalentTo(4))
	})
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"3: 0 m7g.large", "4: 2 m7g.xlarge"}))
}

func TestDeployment_reportsExistingRevisions(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 1)
	waitRolledOut(t, d)

	update(t, d, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.RollbackTo = new(int64(7))
		d.Spec.Replicas = new(int32(2))
		d.Spec.Template.Spec.InstanceType = "m7g.xlarge"
	})

	c := tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionFalse, infrav1.RevisionNotFoundReason)
	g.Expect(c.Message).To(Equal("Revision 7 does not exist: remove spec.rollbackTo, or set it to one of 1"))
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.RevisionNotFoundReason)
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 2 m7g.large"}), "it should scale but not roll out")
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(d.Namespace))).To(Succeed())
		g.Expect(all.Items).To(ContainElement(And(HaveField("Reason", infrav1.RevisionNotFoundReason), HaveField("Type", "Warning"))))
	}).Should(Succeed())

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = nil })
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 0 m7g.large", "2: 2 m7g.xlarge"}))
}

func TestDeployment_scalesOnlyWhilePaused(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 2)
	waitRolledOut(t, d)

	update(t, d, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Paused = new(true)
		d.Spec.Replicas = new(int32(4))
		d.Spec.Template.Spec.InstanceType = "m7g.xlarge"
		d.Spec.Template.Spec.Tags = map[string]string{"later": "too"}
	})

	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionFalse, infrav1.DeploymentPausedReason)
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 4 m7g.large"}))
	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(HaveLen(4))
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.DeploymentPausedReason)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 4 m7g.large"}), "paused")
	g.Expect(alive(t, d.Namespace)).To(HaveEach(HaveField("Spec.Tags", BeEmpty())))

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Paused = nil })
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 0 m7g.large", "2: 4 m7g.xlarge"}))
}

func TestDeployment_reportsExceededDeadline(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 3, func(d *infrav1.CAPTMachineDeployment) { d.Spec.ProgressDeadlineSeconds = new(int32(600)) })
	waitRolledOut(t, d)
	t.Cleanup(func() { ahead.Store(0) })

	update(t, d, instanceType(broken))
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 3 m7g.large", "2: 1 broken.large"}))
	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(HaveLen(4))
	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionTrue, infrav1.RollingOutReason)
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.RollingOutReason)

	ahead.Store(int64(time.Hour))
	touch(t, d)
	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionFalse, infrav1.ProgressDeadlineExceededReason)
	g.Expect(meta.IsStatusConditionTrue(d.Status.Conditions, infrav1.AvailableCondition)).To(BeTrue(), "the old machines should be available")
	tester(t).WaitForCondition(d, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ProgressDeadlineExceededReason)

	for _, m := range alive(t, d.Namespace) {
		if m.Spec.InstanceType == broken {
			g.Expect(setReady(t.Context(), m, metav1.ConditionTrue)).To(Succeed())
		}
	}
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 2 m7g.large", "2: 2 broken.large"}))
	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionTrue, infrav1.RollingOutReason)
}

// touch triggers a reconcile of a deployment.
func touch(t *testing.T, d *infrav1.CAPTMachineDeployment) {
	t.Helper()
	update(t, d, func(d *infrav1.CAPTMachineDeployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "test.capt.appthrust.io/touched", time.Now().String())
	})
}

func TestDeployment_replacesOnlyDeletedMachinesWithOnDelete(t *testing.T) {
	g := NewWithT(t)
	d := newDeployment(t, 3, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Strategy = &infrav1.MachineDeploymentStrategy{Type: infrav1.OnDeleteStrategy}
	})
	waitRolledOut(t, d)

	update(t, d, instanceType("m7g.xlarge"))
	c := tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionTrue, infrav1.WaitingForDeletionReason)
	g.Expect(c.Message).To(ContainSubstring("0 of 3 machines are up to date"))
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 3 m7g.large", "2: 0 m7g.xlarge"}))

	deleted := alive(t, d.Namespace)[0]
	g.Expect(env.Client.Delete(t.Context(), deleted)).To(Succeed())
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 2 m7g.large", "2: 1 m7g.xlarge"}))
	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(HaveLen(3))
	tester(t).WaitFor(d, "the new machine should count", func(g Gomega) {
		g.Expect(d.Status.UpdatedReplicas).To(HaveValue(BeEquivalentTo(1)))
	})
	tester(t).WaitForCondition(d, infrav1.ProgressingCondition, metav1.ConditionTrue, infrav1.WaitingForDeletionReason)

	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Replicas = new(int32(5)) })
	g.Eventually(func() []string { return sizes(t, d.Namespace) }).Should(Equal([]string{"1: 2 m7g.large", "2: 3 m7g.xlarge"}), "new machines should be up to date")
	g.Eventually(func() []*infrav1.CAPTMachine { return alive(t, d.Namespace) }).Should(HaveLen(5))
	update(t, d, func(d *infrav1.CAPTMachineDeployment) { d.Spec.Replicas = new(int32(3)) })
	waitRolledOut(t, d)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 0 m7g.large", "2: 3 m7g.xlarge"}), "old machines should go first")
}

package machines

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func setObject(name, revision, instanceType string, hours int) *infrav1.CAPTMachineSet {
	s := &infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(hours) * time.Hour)),
	}}
	if revision != "" {
		s.Annotations = map[string]string{infrav1.RevisionAnnotation: revision}
	}
	s.Spec.Template.Spec = *fullSpec()
	s.Spec.Template.Spec.InstanceType = instanceType
	return s
}

func TestFindCurrent(t *testing.T) {
	g := NewWithT(t)
	template := &infrav1.MachineTemplate{Spec: *fullSpec()}
	newer, older := setObject("newer", "1", "m7g.large", 1), setObject("older", "2", "m7g.large", 2)
	other := setObject("other", "3", "m7g.xlarge", 9)
	deleted := setObject("deleted", "4", "m7g.large", 9)
	deleted.DeletionTimestamp = new(metav1.NewTime(noon))

	g.Expect(FindCurrent(template, []*infrav1.CAPTMachineSet{newer, other, older, deleted})).To(BeIdenticalTo(older))
	g.Expect(FindCurrent(template, []*infrav1.CAPTMachineSet{other, deleted})).To(BeNil())
	older.Spec.Template.Spec.Tags = map[string]string{"other": "tag"}
	g.Expect(FindCurrent(template, []*infrav1.CAPTMachineSet{older})).To(BeIdenticalTo(older), "a change in place does not need another set")
}

func TestRevisions(t *testing.T) {
	g := NewWithT(t)
	one, two, three := setObject("one", "1", "a", 3), setObject("two", "2", "b", 2), setObject("three", "3", "c", 1)
	odd := setObject("odd", "x", "d", 1)
	all := []*infrav1.CAPTMachineSet{two, one, odd, three}

	g.Expect(NextRevision(nil, nil)).To(BeEquivalentTo(1))
	g.Expect(NextRevision(nil, all)).To(BeEquivalentTo(4))
	g.Expect(NextRevision(three, all)).To(BeEquivalentTo(3), "the highest revision stays")
	g.Expect(NextRevision(one, all)).To(BeEquivalentTo(4), "an old set becomes the newest")
	g.Expect(NextRevision(three, []*infrav1.CAPTMachineSet{three})).To(BeEquivalentTo(3), "removed sets do not count")
	g.Expect(Revisions(all)).To(Equal([]int64{1, 2, 3}))

	g.Expect(FindRevision(0, three, all)).To(BeIdenticalTo(two), "the previous revision")
	g.Expect(FindRevision(0, nil, all)).To(BeIdenticalTo(three), "the latest revision if the template has no set")
	g.Expect(FindRevision(1, three, all)).To(BeIdenticalTo(one))
	g.Expect(FindRevision(3, three, all)).To(BeIdenticalTo(three))
	g.Expect(FindRevision(7, three, all)).To(BeNil())
	g.Expect(FindRevision(0, one, []*infrav1.CAPTMachineSet{one, odd})).To(BeNil())
}

func TestNewSet(t *testing.T) {
	g := NewWithT(t)
	d := &infrav1.CAPTMachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "workers", UID: "d", Labels: map[string]string{clusterv1.WatchLabel: "mine", "other": "x"},
	}}
	d.Spec = infrav1.CAPTMachineDeploymentSpec{
		ClusterName: "production", MinReadySeconds: new(int32(5)),
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
		Template: infrav1.MachineTemplate{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a"}}, Spec: *fullSpec()},
		Strategy: &infrav1.MachineDeploymentStrategy{RollingUpdate: &infrav1.RollingUpdate{DeletePolicy: infrav1.OldestMachineDeletePolicy}},
	}
	hash := Hash(&d.Spec.Template.Spec, nil)

	set := NewSet(d, 7, SizeRecord{Replicas: 2, Desired: 5, Max: 6})

	g.Expect(set.Name).To(Equal("workers-" + hash))
	g.Expect(metav1.IsControlledBy(set, d)).To(BeTrue())
	labels := map[string]string{"pool": "a", infrav1.MachineTemplateHashLabel: hash, clusterv1.ClusterNameLabel: "production"}
	g.Expect(set.Spec.Template.ObjectMeta.Labels).To(Equal(labels))
	g.Expect(set.Spec.Selector.MatchLabels).To(Equal(map[string]string{"pool": "a", infrav1.MachineTemplateHashLabel: hash}))
	labels[clusterv1.WatchLabel] = "mine"
	g.Expect(set.Labels).To(Equal(labels))
	g.Expect(set.Annotations).To(Equal(map[string]string{
		infrav1.RevisionAnnotation: "7", infrav1.DesiredReplicasAnnotation: "5", infrav1.MaxReplicasAnnotation: "6",
	}))
	g.Expect(set.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	g.Expect(set.Spec.MinReadySeconds).To(HaveValue(BeEquivalentTo(5)))
	g.Expect(set.Spec.DeletePolicy).To(Equal(infrav1.OldestMachineDeletePolicy))
	g.Expect(d.Spec.Selector.MatchLabels).To(HaveLen(1), "the deployment is not changed")
	g.Expect(d.Spec.Template.ObjectMeta.Labels).To(HaveLen(1))

	state := SetOf(set, nil)
	g.Expect(state).To(And(HaveField("Revision", BeEquivalentTo(7)), HaveField("Desired", BeEquivalentTo(5)), HaveField("Max", BeEquivalentTo(6)),
		HaveField("Replicas", BeEquivalentTo(2)), HaveField("MinReady", 5*time.Second), HaveField("Settled", true)))

	updated := set.DeepCopy()
	UpdateCurrentSet(d, updated, 7)
	UpdateSet(d, updated, false)
	g.Expect(SameSet(set, updated)).To(BeTrue(), "a second update changes nothing")
	UpdateSet(d, updated, true)
	g.Expect(updated.Annotations).To(HaveKey(clusterv1.DisableMachineCreateAnnotation))
	UpdateSet(d, updated, false)
	g.Expect(SameSet(set, updated)).To(BeTrue())

	g.Expect(TemplateOf(set).ObjectMeta.Labels).To(Equal(map[string]string{"pool": "a", clusterv1.ClusterNameLabel: "production"}))
	g.Expect(TemplateOf(set).Spec).To(Equal(d.Spec.Template.Spec))
}

func TestUpdateCurrentSet_keepsReplacementFields(t *testing.T) {
	g := NewWithT(t)
	d := &infrav1.CAPTMachineDeployment{Spec: infrav1.CAPTMachineDeploymentSpec{ClusterName: "production", Template: infrav1.MachineTemplate{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a", "tier": "2"}}, Spec: *fullSpec(),
	}}}
	s := setObject("adopted", "", "m7g.xlarge", 1)
	s.Spec.Template.ObjectMeta.Labels = map[string]string{"pool": "a", "old": "x"}

	UpdateCurrentSet(d, s, 3)

	g.Expect(s.Spec.Template.Spec.InstanceType).To(Equal("m7g.xlarge"))
	g.Expect(s.Spec.Template.ObjectMeta.Labels).To(Equal(map[string]string{"pool": "a", "tier": "2", clusterv1.ClusterNameLabel: "production"}),
		"a set without a hash gets none, because its selector is immutable")
}

func TestSetOf_deletedSetHasNoReplicas(t *testing.T) {
	g := NewWithT(t)
	s := setObject("s", "1", "a", 1)
	s.Spec.Replicas, s.Generation = new(int32(3)), 2
	s.Status.ObservedGeneration = 1
	g.Expect(SetOf(s, nil)).To(And(HaveField("Replicas", BeEquivalentTo(3)), HaveField("Settled", false), HaveField("Desired", BeEquivalentTo(-1))))
	s.DeletionTimestamp = new(metav1.NewTime(noon))
	s.Annotations[infrav1.DesiredReplicasAnnotation] = "-4"
	g.Expect(SetOf(s, nil)).To(And(HaveField("Replicas", BeEquivalentTo(0)), HaveField("Deleting", true), HaveField("Desired", BeEquivalentTo(-1))))
	g.Expect(Replicas(nil)).To(BeEquivalentTo(1))
}

func TestSame_comparesSpecLabelsAndAnnotations(t *testing.T) {
	metadata := func(label, annotation string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{"a": label}, Annotations: map[string]string{"b": annotation}, ResourceVersion: label + annotation}
	}
	for name, test := range map[string]struct {
		meta    metav1.ObjectMeta
		cluster string
		want    bool
	}{
		"equal":              {metadata("1", "1"), "c", true},
		"another spec":       {metadata("1", "1"), "d", false},
		"another label":      {metadata("2", "1"), "c", false},
		"another annotation": {metadata("1", "2"), "c", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set, other := &infrav1.CAPTMachineSet{ObjectMeta: metadata("1", "1")}, &infrav1.CAPTMachineSet{ObjectMeta: test.meta}
			set.Spec.ClusterName, other.Spec.ClusterName = "c", test.cluster
			g.Expect(SameSet(set, other)).To(Equal(test.want))
			machine, changed := &infrav1.CAPTMachine{ObjectMeta: metadata("1", "1")}, &infrav1.CAPTMachine{ObjectMeta: test.meta}
			machine.Spec.ProviderID, changed.Spec.ProviderID = "c", test.cluster
			g.Expect(SameMachine(machine, changed)).To(Equal(test.want))
		})
	}
}

func TestRevision_isZeroIfInvalid(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "3": 3, "-3": 0, "x": 0} {
		set := &infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.RevisionAnnotation: text}}}
		NewWithT(t).Expect(Revision(set)).To(Equal(want), text)
	}
}

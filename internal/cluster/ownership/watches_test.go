package ownership

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// setReader lists sets.
type setReader struct {
	client.Reader
	sets []infrav1.CAPTMachineSet
}

func (r *setReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if sets, ok := list.(*infrav1.CAPTMachineSetList); ok {
		sets.Items = r.sets
	}
	return nil
}

func TestWatches(t *testing.T) {
	set := func(name, cluster, pool string) infrav1.CAPTMachineSet {
		s := infrav1.CAPTMachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		s.Spec.ClusterName = cluster
		s.Spec.Selector.MatchLabels = map[string]string{"pool": pool}
		return s
	}
	invalid := set("invalid", "production", "a")
	invalid.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Unknown"}}
	w := &Watches[*infrav1.CAPTMachineSet]{
		Client: &setReader{sets: []infrav1.CAPTMachineSet{set("one", "production", "a"), set("two", "staging", "a"), set("three", "production", "b"), invalid}},
		Kind:   "CAPTMachineSet", NewList: func() client.ObjectList { return &infrav1.CAPTMachineSetList{} },
		Spec: func(s *infrav1.CAPTMachineSet) (*metav1.LabelSelector, string) {
			return &s.Spec.Selector, s.Spec.ClusterName
		},
	}
	controller := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: "owner", Controller: new(true)}}
	}
	names := func(requests []ctrl.Request) []string {
		var found []string
		for _, request := range requests {
			found = append(found, request.String())
		}
		return found
	}
	machine := func(owners []metav1.OwnerReference) *infrav1.CAPTMachine {
		return &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{"pool": "a"}, OwnerReferences: owners}}
	}
	g := NewWithT(t)
	g.Expect(names(w.RequestsForDependent(t.Context(), machine(nil)))).To(Equal([]string{"ns/one", "ns/two"}), "orphan")
	g.Expect(names(w.RequestsForDependent(t.Context(), machine(controller("CAPTMachineSet"))))).To(Equal([]string{"ns/owner"}), "controlled")
	g.Expect(names(w.RequestsForDependent(t.Context(), machine(controller("Other"))))).To(BeEmpty(), "controlled by another kind")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "production"}}
	g.Expect(names(w.RequestsForCluster(t.Context(), cluster))).To(Equal([]string{"ns/one", "ns/three", "ns/invalid"}))
}

func TestClusterCreatedOrPaused(t *testing.T) {
	cluster := func(paused *bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: paused}}
	}
	g := NewWithT(t)
	p := ClusterCreatedOrPaused()
	g.Expect(p.Create(event.CreateEvent{Object: cluster(nil)})).To(BeTrue())
	g.Expect(p.Delete(event.DeleteEvent{Object: cluster(nil)})).To(BeFalse())
	for name, c := range map[string]struct {
		previous, current *bool
		want              bool
	}{
		"unchanged":   {nil, nil, false},
		"false":       {nil, new(false), false},
		"paused":      {nil, new(true), true},
		"still":       {new(true), new(true), false},
		"resumed":     {new(true), nil, true},
		"not a pause": {new(false), nil, false},
	} {
		g.Expect(p.Update(event.UpdateEvent{ObjectOld: cluster(c.previous), ObjectNew: cluster(c.current)})).To(Equal(c.want), name)
	}
}

// failingIndexer rejects every index.
type failingIndexer struct{}

func (failingIndexer) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errors.New("already started")
}

// recordingIndexer keeps the function of an index.
type recordingIndexer struct{ extract client.IndexerFunc }

func (r *recordingIndexer) IndexField(_ context.Context, _ client.Object, _ string, extract client.IndexerFunc) error {
	r.extract = extract
	return nil
}

func TestIndex(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Index(t.Context(), failingIndexer{}, &infrav1.CAPTMachine{}, "controller")).To(MatchError(ContainSubstring("already started")))

	indexer := &recordingIndexer{}
	g.Expect(Index(t.Context(), indexer, &infrav1.CAPTMachine{}, "controller")).To(Succeed())
	machine := &infrav1.CAPTMachine{}
	g.Expect(indexer.extract(machine)).To(Equal([]string{NoController}))
	machine.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: "set", Controller: new(true)}}
	g.Expect(indexer.extract(machine)).To(Equal([]string{"set"}))
}

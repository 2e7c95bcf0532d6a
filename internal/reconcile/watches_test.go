package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestSpecOrMetadataChanged(t *testing.T) {
	tests := []struct {
		name   string
		change func(*thing)
		want   bool
	}{
		{"nothing", func(*thing) {}, false},
		{"status", func(o *thing) { o.Status.RunID = "run-1" }, false},
		{"spec", func(o *thing) { o.Generation++ }, true},
		{"annotation", func(o *thing) { o.Annotations = map[string]string{"a": "b"} }, true},
		{"label", func(o *thing) { o.Labels = map[string]string{"a": "b"} }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := event.UpdateEvent{ObjectOld: newThing(), ObjectNew: newThing(tt.change)}
			NewWithT(t).Expect(SpecOrMetadataChanged().Update(e)).To(Equal(tt.want))
		})
	}
}

func TestStopsUsing(t *testing.T) {
	g := NewWithT(t)
	p := StopsUsing(func(previous, current *thing) bool { return previous.Spec.Endpoint != current.Spec.Endpoint })
	changed := newThing(func(o *thing) { o.Spec.Endpoint = "other" })

	g.Expect(p.Create(event.CreateEvent{Object: newThing()})).To(BeFalse())
	g.Expect(p.Generic(event.GenericEvent{Object: newThing()})).To(BeFalse())
	g.Expect(p.Delete(event.DeleteEvent{Object: newThing()})).To(BeTrue())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: newThing(), ObjectNew: newThing()})).To(BeFalse())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: newThing(), ObjectNew: changed})).To(BeTrue())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: newThing(), ObjectNew: &clusterv1.Cluster{}})).To(BeFalse(), "another kind")
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: &clusterv1.Cluster{}, ObjectNew: changed})).To(BeFalse(), "another kind")
}

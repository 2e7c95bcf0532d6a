package machines

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// ready returns a machine that was created some hours ago and is ready for a minute.
func ready(name string, hours int) Machine {
	return Machine{Name: name, UID: types.UID(name), Created: noon.Add(-time.Duration(hours) * time.Hour), Ready: true, ReadySince: noon.Add(-time.Minute)}
}

func with(m Machine, change func(*Machine)) Machine {
	change(&m)
	return m
}

func unready(m *Machine)  { m.Ready, m.ReadySince = false, time.Time{} }
func marked(m *Machine)   { m.Marked = true }
func deleting(m *Machine) { m.Deleting, m.Ready = true, false }

func names(all []Machine) []string {
	var list []string
	for _, m := range all {
		list = append(list, m.Name)
	}
	return list
}

func TestDeletionOrder(t *testing.T) {
	fresh := func(m *Machine) { m.ReadySince = noon.Add(-time.Second) }
	tests := []struct {
		name   string
		policy infrav1.MachineDeletePolicy
		all    []Machine
		want   []string
	}{
		{name: "none"},
		{
			name: "newest", policy: infrav1.NewestMachineDeletePolicy,
			all: []Machine{ready("b", 2), ready("c", 1), ready("a", 3)}, want: []string{"c", "b", "a"},
		},
		{
			name: "oldest", policy: infrav1.OldestMachineDeletePolicy,
			all: []Machine{ready("b", 2), ready("c", 1), ready("a", 3)}, want: []string{"a", "b", "c"},
		},
		{
			name: "same age: by name", policy: infrav1.OldestMachineDeletePolicy,
			all: []Machine{ready("b", 1), ready("c", 1), ready("a", 1)}, want: []string{"a", "b", "c"},
		},
		{
			name: "not ready before ready", policy: infrav1.OldestMachineDeletePolicy,
			all:  []Machine{ready("old", 9), with(ready("new", 1), unready), with(ready("newer", 0), unready)},
			want: []string{"new", "newer", "old"},
		},
		{
			name: "not available before available", policy: infrav1.OldestMachineDeletePolicy,
			all: []Machine{ready("old", 9), with(ready("new", 1), fresh)}, want: []string{"new", "old"},
		},
		{
			name: "marked before all others", policy: infrav1.NewestMachineDeletePolicy,
			all:  []Machine{ready("old", 9), with(ready("broken", 1), unready), with(ready("chosen", 5), marked)},
			want: []string{"chosen", "broken", "old"},
		},
		{
			name: "marked and not ready before marked and ready", policy: infrav1.NewestMachineDeletePolicy,
			all:  []Machine{with(ready("good", 1), marked), with(with(ready("bad", 9), marked), unready)},
			want: []string{"bad", "good"},
		},
		{
			name: "without machines being deleted", policy: infrav1.NewestMachineDeletePolicy,
			all: []Machine{with(ready("gone", 1), deleting), ready("left", 1)}, want: []string{"left"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(names(DeletionOrder(tt.all, tt.policy, 10*time.Second, noon))).To(Equal(tt.want))
		})
	}
}

func TestDeletionOrder_randomIsFairAndStable(t *testing.T) {
	g := NewWithT(t)
	firsts := map[string]int{}
	for range 300 {
		var all []Machine
		for i := range 3 {
			m := ready(fmt.Sprintf("m%d", i), i)
			m.UID = uuid.NewUUID()
			all = append(all, m)
		}
		order := names(DeletionOrder(all, infrav1.RandomMachineDeletePolicy, 0, noon))
		firsts[order[0]]++
		all[0], all[2] = all[2], all[0]
		g.Expect(names(DeletionOrder(all, infrav1.RandomMachineDeletePolicy, 0, noon))).To(Equal(order), "the order does not depend on the input order")
	}
	for name, n := range firsts {
		g.Expect(n).To(BeNumerically("~", 100, 50), name)
	}
}

func TestDeletionOrder_randomPrefersUnhealthyMachines(t *testing.T) {
	all := []Machine{ready("a", 1), ready("b", 1), with(ready("c", 1), unready), ready("d", 1)}
	NewWithT(t).Expect(DeletionOrder(all, infrav1.RandomMachineDeletePolicy, 0, noon)[0].Name).To(Equal("c"))
}

func TestDiffReplicas_limitsBurst(t *testing.T) {
	g := NewWithT(t)
	var many []Machine
	for i := range 700 {
		many = append(many, ready(fmt.Sprintf("m%d", i), 1))
	}
	g.Expect(DiffReplicas(nil, 1200, "", 0, noon)).To(Equal(ReplicaDiff{Create: MaxBurst}))
	g.Expect(DiffReplicas(many, 100, "", 0, noon).Delete).To(HaveLen(MaxBurst))
	g.Expect(DiffReplicas(many, 701, "", 0, noon)).To(Equal(ReplicaDiff{Create: 1}))
	g.Expect(DiffReplicas(many, 700, "", 0, noon).Empty()).To(BeTrue())
	g.Expect(ReplicaDiff{Create: 1}.Empty()).To(BeFalse())
	g.Expect(ReplicaDiff{Delete: many[:1]}.Empty()).To(BeFalse())
	g.Expect(DiffReplicas([]Machine{with(ready("a", 1), deleting)}, 1, "", 0, noon)).To(Equal(ReplicaDiff{Create: 1}), "a machine being deleted is not a replica")
}

func TestMachineOf_readsReadyCondition(t *testing.T) {
	g := NewWithT(t)
	m := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", CreationTimestamp: metav1.NewTime(noon)}}
	g.Expect(MachineOf(m)).To(Equal(Machine{Name: "a", UID: "u", Created: noon}), "no condition means not ready")

	condition := metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}
	m.Status.Conditions = []metav1.Condition{condition}
	m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	g.Expect(MachineOf(m)).To(Equal(Machine{Name: "a", UID: "u", Created: noon, Ready: true, ReadySince: noon, Marked: true}))

	m.DeletionTimestamp = new(metav1.NewTime(noon))
	g.Expect(MachineOf(m)).To(And(HaveField("Ready", false), HaveField("Deleting", true)))

	m.DeletionTimestamp, m.Status.Conditions[0].Status = nil, metav1.ConditionUnknown
	g.Expect(MachineOf(m).Ready).To(BeFalse())
}

func TestCount_dependsOnMinReady(t *testing.T) {
	g := NewWithT(t)
	since := func(ago time.Duration) func(*Machine) { return func(m *Machine) { m.ReadySince = noon.Add(-ago) } }
	all := []Machine{
		with(ready("a", 1), since(10*time.Second)), with(ready("b", 1), since(9*time.Second)), with(ready("c", 1), since(2*time.Second)),
		with(ready("d", 1), unready), with(ready("e", 1), deleting),
	}

	g.Expect(Count(all, 10*time.Second, noon)).To(Equal(Counts{Replicas: 4, Ready: 3, Available: 1, Deleting: 1}))
	g.Expect(Count(all, 0, noon)).To(Equal(Counts{Replicas: 4, Ready: 3, Available: 3, Deleting: 1}))
	g.Expect(NextAvailable(all, 10*time.Second, noon)).To(Equal(time.Second))
	g.Expect(NextAvailable(all, 0, noon)).To(BeZero(), "no machine becomes available later")
	g.Expect(Seconds(nil)).To(BeZero())
}

package machines

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Set is what counts of a CAPTMachineSet of a deployment.
type Set struct {
	Name     string
	UID      types.UID
	Created  time.Time
	Revision int64
	// Replicas is how many machines the set is told to have. A set that is being
	// deleted is to have none, whatever it was told before.
	Replicas int32
	// Settled is true when the set's controller has acted on the latest size, so
	// that no decision on an earlier one can still make machines.
	Settled  bool
	Deleting bool
	// Desired and Max are what the deployment wanted, and could have, when it
	// last sized the set; negative when that is not known.
	Desired, Max int32
	Policy       infrav1.MachineDeletePolicy
	MinReady     time.Duration
	Machines     []Machine
}

// SetOf is what counts of a set and its machines.
func SetOf(set *infrav1.CAPTMachineSet, all []Machine) *Set {
	s := &Set{
		Name: set.Name, UID: set.UID, Created: set.CreationTimestamp.Time,
		Revision: Revision(set),
		Settled:  set.Status.ObservedGeneration >= set.Generation,
		Deleting: !set.DeletionTimestamp.IsZero(),
		Desired:  number(set.Annotations, infrav1.DesiredReplicasAnnotation),
		Max:      number(set.Annotations, infrav1.MaxReplicasAnnotation),
		Policy:   set.Spec.DeletePolicy, MinReady: Seconds(set.Spec.MinReadySeconds),
		Machines: all,
	}
	if !s.Deleting {
		s.Replicas = Replicas(set.Spec.Replicas)
	}
	return s
}

// Replicas is a wanted number of machines, which the API defaults to one.
func Replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func number(annotations map[string]string, key string) int32 {
	n, err := strconv.ParseInt(annotations[key], 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int32(n)
}

// weighed is a set with a size that is being thought about.
type weighed struct {
	*Set
	// size is the size thought about.
	size int32
	// present is how many machines there are that are not being deleted.
	present int32
	// kept[n] is how many machines are available among the n that go last.
	kept []int32
	// marked is how many machines go first because a person said so.
	marked int32
}

func weigh(s *Set, now time.Time) *weighed {
	victims := Victims(s.Machines, s.Policy, s.MinReady, now)
	w := &weighed{Set: s, size: s.Replicas, present: int32(len(victims)), kept: make([]int32, len(victims)+1)}
	for i, m := range slices.Backward(victims) {
		n := len(victims) - i
		w.kept[n] = w.kept[n-1]
		if m.Available(s.MinReady, now) {
			w.kept[n]++
		}
		if m.Marked {
			w.marked++
		}
	}
	return w
}

// available is how many machines stay available at the size thought about.
func (w *weighed) available() int32 { return w.kept[min(w.size, w.present)] }

// cost is how many available machines the set loses with its next one.
func (w *weighed) cost() int32 {
	if w.size > w.present {
		return 0
	}
	return w.kept[w.size] - w.kept[w.size-1]
}

// total is how many machines the set has or may make.
func (w *weighed) total() int32 { return max(w.Replicas, w.present) }

// active tells whether the set is to have machines.
func (w *weighed) active() bool { return w.Replicas > 0 }

// take makes the set smaller by up to n, as long as that leaves enough
// available: each available machine that goes is paid from spare. It returns how
// much smaller it became.
func (w *weighed) take(n int32, spare *int32) int32 {
	var taken int32
	for ; taken < n && w.size > 0 && w.cost() <= *spare; taken++ {
		*spare -= w.cost()
		w.size--
	}
	return taken
}

// takeMarked makes the set smaller by up to n, by what a person marked.
func (w *weighed) takeMarked(n int32) int32 {
	var taken int32
	for ; taken < n && w.size > w.present-w.marked; taken++ {
		w.size--
	}
	return taken
}

// byAge sorts sets, the oldest first.
func byAge(a, b *weighed) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
}

// Revision is the revision of a set, or zero when it has none.
func Revision(set *infrav1.CAPTMachineSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[infrav1.RevisionAnnotation], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

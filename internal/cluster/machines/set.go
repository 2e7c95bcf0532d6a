package machines

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Set is the state of a CAPTMachineSet that decisions of its deployment depend
// on.
type Set struct {
	Name     string
	UID      types.UID
	Created  time.Time
	Revision int64
	// Replicas is the size in the spec. It is zero for a set that is being
	// deleted.
	Replicas int32
	// Settled reports whether the set's controller has observed the latest size. No
	// decision on an earlier size can then create machines.
	Settled  bool
	Deleting bool
	// Desired and Max are the desired and the maximum number of machines of the
	// deployment when it last sized the set. They are negative if unknown.
	Desired, Max int32
	Policy       infrav1.MachineDeletePolicy
	MinReady     time.Duration
	Machines     []Machine
}

// SetOf returns the state of a set with its machines.
func SetOf(set *infrav1.CAPTMachineSet, all []Machine) *Set {
	s := &Set{
		Name: set.Name, UID: set.UID, Created: set.CreationTimestamp.Time,
		Revision: Revision(set),
		Settled:  set.Status.ObservedGeneration >= set.Generation,
		Deleting: !set.DeletionTimestamp.IsZero(),
		Desired:  parseCount(set.Annotations[infrav1.DesiredReplicasAnnotation]),
		Max:      parseCount(set.Annotations[infrav1.MaxReplicasAnnotation]),
		Policy:   set.Spec.DeletePolicy, MinReady: Seconds(set.Spec.MinReadySeconds),
		Machines: all,
	}
	if !s.Deleting {
		s.Replicas = Replicas(set.Spec.Replicas)
	}
	return s
}

// Replicas returns the number of machines of an API field, which defaults to one.
func Replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// Revision returns the revision of a set, or zero if it has none.
func Revision(set *infrav1.CAPTMachineSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[infrav1.RevisionAnnotation], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// parseCount returns the number in text, or -1 if there is none.
func parseCount(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int32(n)
}

// sizing is a set with a tentative size, which the planner changes.
type sizing struct {
	*Set
	// size is the tentative size.
	size int32
	// present is the number of machines that are not being deleted.
	present int32
	// availableAt[n] is the number of available machines that are left if the set
	// shrinks to n machines.
	availableAt []int32
	// marked is the number of marked machines, which are deleted first.
	marked int32
}

func newSizing(s *Set, now time.Time) *sizing {
	order := DeletionOrder(s.Machines, s.Policy, s.MinReady, now)
	z := &sizing{Set: s, size: s.Replicas, present: int32(len(order)), availableAt: make([]int32, len(order)+1)}
	for i, m := range slices.Backward(order) {
		n := len(order) - i
		z.availableAt[n] = z.availableAt[n-1]
		if m.Available(s.MinReady, now) {
			z.availableAt[n]++
		}
		if m.Marked {
			z.marked++
		}
	}
	return z
}

// available returns the number of machines that stay available at the tentative
// size.
func (z *sizing) available() int32 { return z.availableAt[min(z.size, z.present)] }

// loss returns how many available machines the set loses if it shrinks by one.
func (z *sizing) loss() int32 {
	if z.size > z.present {
		return 0
	}
	return z.availableAt[z.size] - z.availableAt[z.size-1]
}

// total returns the number of machines that the set has or may create.
func (z *sizing) total() int32 { return max(z.Replicas, z.present) }

// active reports whether the set should have machines.
func (z *sizing) active() bool { return z.Replicas > 0 }

// shrink shrinks the set by up to n machines. It stops when it would lose more
// available machines than spare, and subtracts those it loses from spare. It
// returns by how much the set shrank.
func (z *sizing) shrink(n int32, spare *int32) int32 {
	var removed int32
	for ; removed < n && z.size > 0 && z.loss() <= *spare; removed++ {
		*spare -= z.loss()
		z.size--
	}
	return removed
}

// shrinkMarked shrinks the set by up to n marked machines. It returns by how much
// the set shrank.
func (z *sizing) shrinkMarked(n int32) int32 {
	var removed int32
	for ; removed < n && z.size > z.present-z.marked; removed++ {
		z.size--
	}
	return removed
}

// byAge orders sets, the oldest first.
func byAge(a, b *sizing) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
}

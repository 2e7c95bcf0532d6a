package machines

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// Victims puts machines in the order in which they go when their set shrinks:
// marked ones, then those that are not ready, then those that are not available
// yet, then the others, each group by the policy. Machines that are on their way
// already are left out.
//
// Random is random between machines, but the same each time it is asked: a set
// that decides twice, because it crashed or saw nothing of its first decision,
// decides for the same machine.
func Victims(all []Machine, policy infrav1.MachineDeletePolicy, minReady time.Duration, now time.Time) []Machine {
	victims := slices.DeleteFunc(slices.Clone(all), func(m Machine) bool { return m.Deleting })
	class := func(m Machine) int {
		switch {
		case !m.Ready:
			return 0
		case !m.Available(minReady, now):
			return 1
		}
		return 2
	}
	slices.SortFunc(victims, func(a, b Machine) int {
		if a.Marked != b.Marked {
			if a.Marked {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(class(a), class(b)), byPolicy(policy, a, b), cmp.Compare(a.Name, b.Name))
	})
	return victims
}

func byPolicy(policy infrav1.MachineDeletePolicy, a, b Machine) int {
	switch policy {
	case infrav1.NewestMachineDeletePolicy:
		return b.Created.Compare(a.Created)
	case infrav1.OldestMachineDeletePolicy:
		return a.Created.Compare(b.Created)
	default:
		return cmp.Compare(lot(a), lot(b))
	}
}

// lot is the lot that a machine draws once and for all. The hash is stirred, for
// UIDs that differ in their last letter only would draw lots in its order.
func lot(m Machine) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.UID))
	n := h.Sum64()
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	return n ^ n>>33
}

// Burst is how many machines one look at a set makes or deletes at most.
const Burst = 500

// Resize is what a set does to have as many machines as wanted.
type Resize struct {
	// Create is how many machines to make.
	Create int
	// Delete are the machines to delete.
	Delete []Machine
}

// Sync decides what a set does to have the wanted number of machines.
func Sync(all []Machine, replicas int32, policy infrav1.MachineDeletePolicy, minReady time.Duration, now time.Time) Resize {
	victims := Victims(all, policy, minReady, now)
	switch excess := len(victims) - int(replicas); {
	case excess < 0:
		return Resize{Create: min(-excess, Burst)}
	case excess > 0:
		return Resize{Delete: victims[:min(excess, Burst)]}
	}
	return Resize{}
}

// InSync tells whether there is nothing to do.
func (r Resize) InSync() bool { return r.Create == 0 && len(r.Delete) == 0 }

package machines

import (
	"cmp"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// DeletionOrder returns machines in the order in which a shrinking set deletes
// them: marked machines, then those that are not ready, then those that are not
// available, then the others. Within a group the policy decides. Machines that are
// being deleted are left out.
//
// The policy Random is random among machines but stable over calls. A set that
// decides twice, because it restarted or read an outdated cache, chooses the same
// machine.
func DeletionOrder(all []Machine, policy infrav1.MachineDeletePolicy, minReady time.Duration, now time.Time) []Machine {
	ordered := slices.DeleteFunc(slices.Clone(all), func(m Machine) bool { return m.Deleting })
	group := func(m Machine) int {
		switch {
		case !m.Ready:
			return 0
		case !m.Available(minReady, now):
			return 1
		}
		return 2
	}
	slices.SortFunc(ordered, func(a, b Machine) int {
		if a.Marked != b.Marked {
			if a.Marked {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(group(a), group(b)), byPolicy(policy, a, b), cmp.Compare(a.Name, b.Name))
	})
	return ordered
}

func byPolicy(policy infrav1.MachineDeletePolicy, a, b Machine) int {
	switch policy {
	case infrav1.NewestMachineDeletePolicy:
		return b.Created.Compare(a.Created)
	case infrav1.OldestMachineDeletePolicy:
		return a.Created.Compare(b.Created)
	default:
		// The API server generates UIDs at random.
		return cmp.Compare(a.UID, b.UID)
	}
}

// MaxBurst is the number of machines that one reconcile of a set creates or
// deletes at most.
const MaxBurst = 500

// ReplicaDiff is what a set does to reach the desired number of machines.
type ReplicaDiff struct {
	// Create is the number of machines to create.
	Create int
	// Delete are the machines to delete.
	Delete []Machine
}

// DiffReplicas compares the machines of a set with their desired number.
func DiffReplicas(all []Machine, replicas int32, policy infrav1.MachineDeletePolicy, minReady time.Duration, now time.Time) ReplicaDiff {
	existing := DeletionOrder(all, policy, minReady, now)
	switch surplus := len(existing) - int(replicas); {
	case surplus < 0:
		return ReplicaDiff{Create: min(-surplus, MaxBurst)}
	case surplus > 0:
		return ReplicaDiff{Delete: existing[:min(surplus, MaxBurst)]}
	}
	return ReplicaDiff{}
}

// Empty reports whether there is nothing to do.
func (d ReplicaDiff) Empty() bool { return d.Create == 0 && len(d.Delete) == 0 }

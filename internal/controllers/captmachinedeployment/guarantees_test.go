package captmachinedeployment

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
)

// bound is a pair of limits of a deployment's spec. It holds as long as a
// controller may act on that spec.
type bound struct{ maxMachines, minAvailable int32 }

// guarantees observes the machines and sets of a deployment, and checks the limits
// of a rollout at each event.
type guarantees struct {
	mu       sync.Mutex
	machines map[string]*infrav1.CAPTMachine
	sets     map[string]*infrav1.CAPTMachineSet
	bounds   []bound
	// reached reports whether enough machines were available while the controllers
	// had nothing to do.
	reached bool
	// failures is the number of machines that failed since then.
	failures int32
	// scaling reports whether old sets may grow, because the user changed the number
	// of machines or the strategy, or paused the deployment.
	scaling    bool
	violations []string
	log        []string
	events     int
	grown      int
	shrunk     int
	settled    int
}

func newGuarantees() *guarantees {
	return &guarantees{machines: map[string]*infrav1.CAPTMachine{}, sets: map[string]*infrav1.CAPTMachineSet{}}
}

func boundOf(d *infrav1.CAPTMachineDeployment) bound {
	replicas := machines.Replicas(d.Spec.Replicas)
	limits, err := machines.LimitsOf(d.Spec.Strategy, replicas)
	if err != nil {
		panic(err)
	}
	return bound{maxMachines: replicas + limits.Surge, minAvailable: replicas - limits.Unavailable}
}

// recordSpec records the limits of a spec that is about to be written.
func (p *guarantees) recordSpec(d *infrav1.CAPTMachineDeployment, scaling bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := boundOf(d)
	p.reached = p.reached && next.minAvailable <= p.bounds[len(p.bounds)-1].minAvailable
	p.bounds = append(p.bounds, next)
	p.scaling = p.scaling || scaling
	p.logf("spec: %d %s, at most %d, at least %d available, paused %v", machines.Replicas(d.Spec.Replicas), d.Spec.Template.Spec.InstanceType,
		next.maxMachines, next.minAvailable, ptr.Deref(d.Spec.Paused, false))
}

// recordFailure records that a machine is about to fail.
func (p *guarantees) recordFailure(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	p.logf("%s fails", name)
}

func (p *guarantees) logf(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
	if len(p.log) > 80 {
		p.log = p.log[1:]
	}
}

func (p *guarantees) violation(format string, args ...any) {
	p.violations = append(p.violations, fmt.Sprintf(format, args...)+"; preceding events:\n  "+strings.Join(p.log, "\n  "))
}

// firstViolation returns the first violation, or an empty string.
func (p *guarantees) firstViolation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.violations) == 0 {
		return ""
	}
	return p.violations[0]
}

func (p *guarantees) count() (total, available int32) {
	for _, m := range p.machines {
		c := machines.MachineOf(m)
		if !c.Deleting {
			total++
		}
		if c.Ready {
			available++
		}
	}
	return total, available
}

func (p *guarantees) maxMachines() int32 {
	return slices.MaxFunc(p.bounds, func(a, b bound) int { return int(a.maxMachines - b.maxMachines) }).maxMachines
}

func (p *guarantees) minAvailable() int32 {
	return slices.MinFunc(p.bounds, func(a, b bound) int { return int(a.minAvailable - b.minAvailable) }).minAvailable
}

// observeMachine checks an event of a machine.
func (p *guarantees) observeMachine(e watch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := e.Object.(*infrav1.CAPTMachine)
	if !ok {
		return
	}
	p.events++
	before, known := p.machines[m.Name]
	p.machines[m.Name] = m
	if e.Type == watch.Deleted {
		delete(p.machines, m.Name)
	}
	total, available := p.count()
	wasReady := known && machines.MachineOf(before).Ready
	deleted := e.Type == watch.Deleted || !m.DeletionTimestamp.IsZero()
	switch {
	case !known:
		p.logf("%s is created: %d machines", m.Name, total)
		if total > p.maxMachines() {
			p.violation("%d machines exceed the maximum of %d", total, p.maxMachines())
		}
	case deleted && wasReady:
		p.logf("%s is deleted: %d available", m.Name, available)
		if p.reached && available < p.minAvailable()-p.failures {
			p.violation("%d available machines are fewer than the minimum of %d (%d failed)", available, p.minAvailable(), p.failures)
		}
	case deleted && before.DeletionTimestamp.IsZero():
		p.logf("%s, which was not ready, is deleted: %d available", m.Name, available)
	case machines.MachineOf(m).Ready && !wasReady:
		p.logf("%s becomes ready: %d available", m.Name, available)
	}
}

// observeSet checks an event of a set.
func (p *guarantees) observeSet(e watch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set, ok := e.Object.(*infrav1.CAPTMachineSet)
	if !ok {
		return
	}
	before, known := p.sets[set.Name]
	p.sets[set.Name] = set
	if e.Type == watch.Deleted {
		delete(p.sets, set.Name)
		return
	}
	from, to := int32(0), *set.Spec.Replicas
	if known {
		from = *before.Spec.Replicas
	}
	switch {
	case to > from:
		p.grown++
		p.logf("%s grows from %d to %d", set.Name, from, to)
		for _, other := range p.sets {
			if !p.scaling && machines.Revision(other) > machines.Revision(set) {
				p.violation("%s grows but is older than %s", set.Name, other.Name)
			}
		}
	case to < from:
		p.shrunk++
		p.logf("%s shrinks from %d to %d", set.Name, from, to)
	}
}

// dropOldBounds removes the limits of old specs. It reports false, and does nothing,
// while controllers have something to do or events have not been observed.
func (p *guarantees) dropOldBounds(d *infrav1.CAPTMachineDeployment, sets []infrav1.CAPTMachineSet, existing []infrav1.CAPTMachine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(existing) != len(p.machines) || d.Status.ObservedGeneration != d.Generation {
		return false
	}
	sizes := map[string]int32{}
	for i := range existing {
		m := &existing[i]
		if seen := p.machines[m.Name]; seen == nil || seen.ResourceVersion != m.ResourceVersion {
			return false
		}
		if m.DeletionTimestamp.IsZero() {
			sizes[m.OwnerReferences[0].Name]++
		}
	}
	var desired int32
	for i := range sets {
		set := &sets[i]
		if set.Status.ObservedGeneration != set.Generation || !set.DeletionTimestamp.IsZero() || sizes[set.Name] != *set.Spec.Replicas {
			return false
		}
		desired += *set.Spec.Replicas
	}
	newest := p.bounds[len(p.bounds)-1]
	total, available := p.count()
	if max(total, desired) > newest.maxMachines {
		return false
	}
	if p.failures > 0 {
		p.failures, p.reached = 0, false
	}
	p.reached = p.reached || available >= newest.minAvailable
	p.bounds = []bound{newest}
	p.scaling = ptr.Deref(d.Spec.Paused, false) || slices.ContainsFunc(sets, func(set infrav1.CAPTMachineSet) bool {
		return *set.Spec.Replicas > 0 && set.Annotations[infrav1.DesiredReplicasAnnotation] != fmt.Sprint(machines.Replicas(d.Spec.Replicas))
	})
	p.settled++
	return true
}

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

// bound is what a deployment asked for, for as long as somebody may act on it.
type bound struct{ most, least int32 }

// promises watches a deployment's machines and sets, and checks at each event
// what was promised of them.
type promises struct {
	mu       sync.Mutex
	machines map[string]*infrav1.CAPTMachine
	sets     map[string]*infrav1.CAPTMachineSet
	bounds   []bound
	// reached is true once enough machines were available while nobody had
	// anything left to do.
	reached bool
	// debt is how many machines failed since then.
	debt int32
	// scaling is true while old sets may grow, because a person changed how many
	// machines are wanted or what they may be.
	scaling bool
	broken  []string
	log     []string
	events  int
	grown   int
	shrunk  int
	settled int
}

func newPromises() *promises {
	return &promises{machines: map[string]*infrav1.CAPTMachine{}, sets: map[string]*infrav1.CAPTMachineSet{}}
}

func boundOf(d *infrav1.CAPTMachineDeployment) bound {
	replicas := machines.Replicas(d.Spec.Replicas)
	limits, err := machines.LimitsOf(d.Spec.Strategy, replicas)
	if err != nil {
		panic(err)
	}
	return bound{most: replicas + limits.Surge, least: replicas - limits.Unavailable}
}

// asked remembers what a person is about to ask for.
func (p *promises) asked(d *infrav1.CAPTMachineDeployment, scaling bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := boundOf(d)
	p.reached = p.reached && next.least <= p.bounds[len(p.bounds)-1].least
	p.bounds = append(p.bounds, next)
	p.scaling = p.scaling || scaling
	p.note("asked for %d %s, at most %d, at least %d available, paused %v", machines.Replicas(d.Spec.Replicas), d.Spec.Template.Spec.InstanceType,
		next.most, next.least, ptr.Deref(d.Spec.Paused, false))
}

// fails remembers that a machine is about to fail.
func (p *promises) fails(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.debt++
	p.note("%s fails", name)
}

func (p *promises) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
	if len(p.log) > 80 {
		p.log = p.log[1:]
	}
}

func (p *promises) breach(format string, args ...any) {
	p.broken = append(p.broken, fmt.Sprintf(format, args...)+"; before it:\n  "+strings.Join(p.log, "\n  "))
}

// verdict is the first promise that was broken, if any.
func (p *promises) verdict() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.broken) == 0 {
		return ""
	}
	return p.broken[0]
}

func (p *promises) count() (total, available int32) {
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

func (p *promises) most() int32 {
	return slices.MaxFunc(p.bounds, func(a, b bound) int { return int(a.most - b.most) }).most
}

func (p *promises) least() int32 {
	return slices.MinFunc(p.bounds, func(a, b bound) int { return int(a.least - b.least) }).least
}

// machine takes in an event of a machine.
func (p *promises) machine(e watch.Event) {
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
	was := known && machines.MachineOf(before).Ready
	goes := e.Type == watch.Deleted || !m.DeletionTimestamp.IsZero()
	switch {
	case !known:
		p.note("%s is made: %d machines", m.Name, total)
		if total > p.most() {
			p.breach("%d machines are more than the %d that there may be", total, p.most())
		}
	case goes && was:
		p.note("%s is deleted: %d available", m.Name, available)
		if p.reached && available < p.least()-p.debt {
			p.breach("%d available machines are fewer than the %d that there have to be (%d failed)", available, p.least(), p.debt)
		}
	case goes && before.DeletionTimestamp.IsZero():
		p.note("%s is deleted, which was not ready: %d available", m.Name, available)
	case machines.MachineOf(m).Ready && !was:
		p.note("%s becomes ready: %d available", m.Name, available)
	}
}

// set takes in an event of a set.
func (p *promises) set(e watch.Event) {
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
		p.note("%s grows from %d to %d", set.Name, from, to)
		for _, other := range p.sets {
			if !p.scaling && machines.Revision(other) > machines.Revision(set) {
				p.breach("%s grows, which is older than %s", set.Name, other.Name)
			}
		}
	case to < from:
		p.shrunk++
		p.note("%s shrinks from %d to %d", set.Name, from, to)
	}
}

// settle forgets what nobody can act on any more, if everybody has done what
// there was to do and the events of it have been seen.
func (p *promises) settle(d *infrav1.CAPTMachineDeployment, sets []infrav1.CAPTMachineSet, there []infrav1.CAPTMachine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(there) != len(p.machines) || d.Status.ObservedGeneration != d.Generation {
		return false
	}
	has := map[string]int32{}
	for i := range there {
		m := &there[i]
		if seen := p.machines[m.Name]; seen == nil || seen.ResourceVersion != m.ResourceVersion {
			return false
		}
		if m.DeletionTimestamp.IsZero() {
			has[m.OwnerReferences[0].Name]++
		}
	}
	var wanted int32
	for i := range sets {
		set := &sets[i]
		if set.Status.ObservedGeneration != set.Generation || !set.DeletionTimestamp.IsZero() || has[set.Name] != *set.Spec.Replicas {
			return false
		}
		wanted += *set.Spec.Replicas
	}
	newest := p.bounds[len(p.bounds)-1]
	total, available := p.count()
	if max(total, wanted) > newest.most {
		return false
	}
	if p.debt > 0 {
		p.debt, p.reached = 0, false
	}
	p.reached = p.reached || available >= newest.least
	p.bounds = []bound{newest}
	p.scaling = ptr.Deref(d.Spec.Paused, false) || slices.ContainsFunc(sets, func(set infrav1.CAPTMachineSet) bool {
		return *set.Spec.Replicas > 0 && set.Annotations[infrav1.DesiredReplicasAnnotation] != fmt.Sprint(machines.Replicas(d.Spec.Replicas))
	})
	p.settled++
	return true
}

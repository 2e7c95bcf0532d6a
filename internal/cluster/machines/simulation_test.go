package machines

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// seed repeats one simulated world: go test -run TestSimulation -seed 7.
var seed = flag.Uint64("seed", 0, "simulate only the world of this seed")

// The simulation runs the decisions of this package in a small world: a
// deployment, its sets and their machines, with each controller taking its steps
// one by one, so that anything can happen between what it reads and what it
// does. Restarts lose what a controller had in mind. Promises are checked each
// time a controller makes or deletes a machine or gives a set a new size.

const (
	worlds = 400
	steps  = 1500
	// badTemplate makes machines that never become ready.
	badTemplate = 4
)

type simMachine struct {
	Machine
	set *simSet
}

type simSet struct {
	Set
	template int
	gen      int64
	observed int64
	version  int
	frozen   bool
	pass     *setPass
	owned    []*simMachine
}

// setPass is a look at a set that goes on.
type setPass struct {
	gen      int64
	replicas int32
	frozen   bool
	deleting bool
	decided  bool
	create   int
	remove   []Machine
	// at is when it was decided: what became available since, by the clock alone,
	// was not when it was chosen.
	at time.Time
}

// deploymentPass is a plan that is being carried out.
type deploymentPass struct {
	plan     Plan
	template int
	replicas int32
	limit    int32
	versions map[types.UID]int
	next     int
}

// bound is what a deployment asked for, for as long as somebody may act on it.
type bound struct{ most, least int32 }

type world struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	now      time.Time
	failures bool
	calm     bool

	replicas int32
	strategy *infrav1.MachineDeploymentStrategy
	minReady time.Duration
	paused   bool
	template int

	sets   []*simSet
	pass   *deploymentPass
	looked bool
	bounds []bound
	debt   int32
	// reached is true once the deployment's controller has seen enough machines
	// available that nobody had decided to delete.
	reached bool
	serial  int
	log     []string
}

func (w *world) limits() Limits {
	limits, err := LimitsOf(w.strategy, w.replicas)
	if err != nil {
		w.fail("limits: %v", err)
	}
	return limits
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
	if len(w.log) > 60 {
		w.log = w.log[1:]
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nrepeat with -seed %d; what happened last:\n  %s\nworld: %s",
		fmt.Sprintf(format, args...), w.seed, strings.Join(w.log, "\n  "), w)
}

func (w *world) String() string {
	text := fmt.Sprintf("replicas %d, limits %+v, paused %v, template %d, debt %d, bounds %v", w.replicas, w.limits(), w.paused, w.template, w.debt, w.bounds)
	for _, s := range w.sets {
		c := Count(s.machines(), s.MinReady, w.now)
		text += fmt.Sprintf("\n  %s: template %d, size %d, %+v, settled %v, deleting %v", s.Name, s.template, s.Replicas, c, s.observed >= s.gen, s.Deleting)
	}
	return text
}

func (s *simSet) machines() []Machine {
	var all []Machine
	for _, m := range s.owned {
		all = append(all, m.Machine)
	}
	return all
}

// state is the set as a controller reads it.
func (s *simSet) state() *Set {
	state := s.Set
	state.Settled = s.observed >= s.gen
	if state.Deleting {
		state.Replicas = 0
	}
	state.Machines = s.machines()
	return &state
}

func (w *world) count() (total, available int32) {
	for _, s := range w.sets {
		c := Count(s.machines(), s.MinReady, w.now)
		total += c.Replicas
		available += c.Available
	}
	return total, available
}

func (w *world) find(uid types.UID) *simSet {
	for _, s := range w.sets {
		if s.UID == uid {
			return s
		}
	}
	return nil
}

func (w *world) current() *simSet {
	for _, s := range w.sets {
		if s.template == w.template && !s.Deleting {
			return s
		}
	}
	return nil
}

func (w *world) rollout() Rollout {
	r := Rollout{
		Replicas: w.replicas, Strategy: TypeOf(w.strategy), Limits: w.limits(),
		Held: w.paused, History: 2, Now: w.now,
	}
	current := w.current()
	for _, s := range w.sets {
		if s == current {
			r.Current = s.state()
		} else {
			r.Old = append(r.Old, s.state())
		}
	}
	return r
}

// asked remembers what was asked for, for as long as it can be acted on.
func (w *world) asked() {
	limits := w.limits()
	next := bound{most: w.replicas + limits.Surge, least: w.replicas - limits.Unavailable}
	w.reached = w.reached && next.least <= w.bounds[len(w.bounds)-1].least
	w.bounds = append(w.bounds, next)
	w.looked = false
}

// settle forgets what nobody can act on any more.
func (w *world) settle() {
	if w.pass != nil || !w.looked {
		return
	}
	for _, s := range w.sets {
		if s.pass != nil || s.observed < s.gen || Count(s.machines(), 0, w.now).Replicas > s.state().Replicas {
			return
		}
	}
	if total, _ := w.count(); max(total, newPlanner(w.rollout()).wanted()) <= w.bounds[len(w.bounds)-1].most {
		w.bounds = w.bounds[len(w.bounds)-1:]
	}
	if w.debt > 0 {
		// What failures took is to be reached again.
		w.debt, w.reached = 0, false
	}
}

func (w *world) most() int32 {
	return slices.MaxFunc(w.bounds, func(a, b bound) int { return int(a.most - b.most) }).most
}

func (w *world) least() int32 {
	return slices.MinFunc(w.bounds, func(a, b bound) int { return int(a.least - b.least) }).least
}

func (w *world) make(s *simSet) {
	w.serial++
	name := fmt.Sprintf("%s-m%d", s.Name, w.serial)
	s.owned = append(s.owned, &simMachine{set: s, Machine: Machine{Name: name, UID: types.UID(name), Created: w.now}})
	total, _ := w.count()
	w.note("%s makes %s: %d machines", s.Name, name, total)
	if total > w.most() {
		w.fail("%d machines are more than the %d that there may be", total, w.most())
	}
}

// remove deletes a machine, unless it is not any more what was decided on.
func (w *world) remove(s *simSet, decided Machine) bool {
	for _, m := range s.owned {
		if m.UID != decided.UID {
			continue
		}
		if m.Machine != decided {
			return false
		}
		was := m.Available(s.MinReady, s.pass.at)
		m.Deleting, m.Ready = true, false
		_, available := w.count()
		w.note("%s deletes %s (available %v): %d available", s.Name, m.Name, was, available)
		if was && !m.Marked && !s.Deleting && w.reached && available < w.least()-w.debt-w.marked() {
			w.fail("%d available machines are fewer than the %d that there have to be (%d failed)", available, w.least(), w.debt)
		}
		if was && m.Marked {
			// A person chose it before the others.
			w.debt++
		}
	}
	return true
}

// marked is how many machines go before others that are not available.
func (w *world) marked() int32 {
	var n int32
	for _, s := range w.sets {
		for _, m := range s.owned {
			if m.Marked && !m.Deleting {
				n++
			}
		}
	}
	return n
}

// deployment takes one step of the deployment's controller.
func (w *world) deployment() {
	if w.pass == nil {
		r := w.rollout()
		plan := r.Plan()
		w.reached = w.reached || newPlanner(r).available() >= r.MinAvailable()
		for _, s := range w.sets {
			if frozen := r.Frozen(s.state()); s.frozen != frozen && !w.paused {
				s.frozen = frozen
				s.version++
			}
		}
		w.pass = &deploymentPass{plan: plan, template: w.template, replicas: w.replicas, limit: r.Max(), versions: map[types.UID]int{}}
		for _, s := range w.sets {
			w.pass.versions[s.UID] = s.version
		}
		w.looked = true
		return
	}
	p := w.pass
	switch {
	case p.next < len(p.plan.Resize):
		to := p.plan.Resize[p.next]
		p.next++
		s := w.find(to.Set.UID)
		if s == nil || s.version != p.versions[s.UID] {
			w.pass = nil // A conflict: look again.
			return
		}
		w.resize(s, to.To)
	case p.plan.Create:
		w.pass = nil
		if w.template != p.template || w.current() != nil {
			return
		}
		w.serial++
		name := fmt.Sprintf("set%d", w.serial)
		w.note("the deployment makes %s with %d machines", name, p.plan.Size)
		w.sets = append(w.sets, &simSet{
			template: p.template, gen: 1, Set: Set{
				Name: name, UID: types.UID(name), Created: w.now, Replicas: p.plan.Size, Desired: p.replicas, Max: p.limit,
				Revision: int64(w.serial), MinReady: w.minReady, Policy: w.policy(),
			},
		})
	default:
		for _, gone := range p.plan.Remove {
			if s := w.find(gone.UID); s != nil {
				s.Deleting = true
				s.gen++
				s.version++
			}
		}
		w.pass = nil
	}
}

func (w *world) policy() infrav1.MachineDeletePolicy {
	return []infrav1.MachineDeletePolicy{
		infrav1.RandomMachineDeletePolicy, infrav1.NewestMachineDeletePolicy, infrav1.OldestMachineDeletePolicy,
	}[w.rng.IntN(3)]
}

func (w *world) resize(s *simSet, to int32) {
	if to > s.Replicas && !w.pass.plan.Scaling && s.template != w.pass.template {
		w.fail("%s grows, which is not the newest", s.Name)
	}
	w.note("the deployment resizes %s from %d to %d", s.Name, s.Replicas, to)
	if s.Replicas != to {
		s.gen++
	}
	s.Replicas, s.Desired, s.Max = to, w.pass.replicas, w.pass.limit
	s.version++
	w.pass.versions[s.UID] = s.version
}

// set takes one step of a set's controller.
func (w *world) set(s *simSet) {
	switch p := s.pass; {
	case p == nil:
		s.pass = &setPass{gen: s.gen, replicas: s.Replicas, frozen: s.frozen, deleting: s.Deleting}
	case !p.decided:
		if p.gen != s.gen {
			s.pass = nil // It changed since it was read.
			return
		}
		replicas := p.replicas
		if p.deleting {
			replicas = 0
		}
		sync := Sync(s.machines(), replicas, s.Policy, s.MinReady, w.now)
		p.decided, p.create, p.at = true, sync.Create, w.now
		if p.frozen {
			p.create = 0
		}
		p.remove = sync.Delete
	case p.create > 0:
		p.create--
		w.make(s)
	case len(p.remove) > 0:
		if !w.remove(s, p.remove[0]) {
			s.pass = nil // A conflict: look again.
			return
		}
		p.remove = p.remove[1:]
	default:
		s.pass = nil
		if p.gen == s.gen && s.observed != p.gen {
			s.observed = p.gen
			s.version++
		}
		if p.deleting && len(s.owned) == 0 {
			w.sets = slices.DeleteFunc(w.sets, func(other *simSet) bool { return other == s })
		}
	}
}

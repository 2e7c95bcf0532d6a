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

// seed repeats one simulation: go test -run TestSimulation -seed 7.
var seed = flag.Uint64("seed", 0, "run only the simulation with this seed")

// A simulation runs the decisions of this package for a deployment, its sets and
// their machines. Each controller takes its steps one by one, so that anything can
// happen between its reads and its writes. A restart discards the reconciles in
// progress. The limits are checked whenever a controller creates or deletes a
// machine or resizes a set.

const (
	simulations = 400
	steps       = 1500
	// badTemplate creates machines that never become ready.
	badTemplate = 4
)

type simMachine struct {
	Machine
	set *simSet
}

type simSet struct {
	Set
	template         int
	gen              int64
	observed         int64
	version          int
	creationDisabled bool
	pass             *setPass
	owned            []*simMachine
}

// setPass is a reconcile of a set in progress.
type setPass struct {
	gen              int64
	replicas         int32
	creationDisabled bool
	deleting         bool
	decided          bool
	create           int
	remove           []Machine
	// at is the time of the decision. Machines may have become available since.
	at time.Time
}

// deploymentPass is a reconcile of the deployment in progress.
type deploymentPass struct {
	plan     Plan
	template int
	replicas int32
	limit    int32
	versions map[types.UID]int
	next     int
}

// bound is a pair of limits of the deployment's spec. It holds as long as a
// controller may act on that spec.
type bound struct{ maxMachines, minAvailable int32 }

type simulation struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	now      time.Time
	failures bool
	// undisturbed reports whether the user and failures no longer interfere.
	undisturbed bool

	replicas int32
	strategy *infrav1.MachineDeploymentStrategy
	minReady time.Duration
	paused   bool
	template int

	sets []*simSet
	pass *deploymentPass
	// observed reports whether the deployment's controller has read the latest spec.
	observed bool
	bounds   []bound
	// excused is the number of machines that are unavailable for other reasons than
	// a decision of the controllers.
	excused int32
	// reached reports whether the deployment's controller has observed enough
	// available machines, not counting those about to be deleted.
	reached bool
	serial  int
	log     []string
}

func (sim *simulation) limits() Limits {
	limits, err := LimitsOf(sim.strategy, sim.replicas)
	if err != nil {
		sim.fail("limits: %v", err)
	}
	return limits
}

func (sim *simulation) logf(format string, args ...any) {
	sim.log = append(sim.log, fmt.Sprintf(format, args...))
	if len(sim.log) > 60 {
		sim.log = sim.log[1:]
	}
}

func (sim *simulation) fail(format string, args ...any) {
	sim.t.Helper()
	sim.t.Fatalf("%s\nrepeat with -seed %d; last events:\n  %s\nstate: %s",
		fmt.Sprintf(format, args...), sim.seed, strings.Join(sim.log, "\n  "), sim)
}

func (sim *simulation) String() string {
	text := fmt.Sprintf("replicas %d, limits %+v, paused %v, template %d, excused %d, bounds %v", sim.replicas, sim.limits(), sim.paused, sim.template, sim.excused, sim.bounds)
	for _, s := range sim.sets {
		c := Count(s.machines(), s.MinReady, sim.now)
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

// state returns the set as a controller reads it.
func (s *simSet) state() *Set {
	state := s.Set
	state.Settled = s.observed >= s.gen
	if state.Deleting {
		state.Replicas = 0
	}
	state.Machines = s.machines()
	return &state
}

func (sim *simulation) count() (total, available int32) {
	for _, s := range sim.sets {
		c := Count(s.machines(), s.MinReady, sim.now)
		total += c.Replicas
		available += c.Available
	}
	return total, available
}

func (sim *simulation) find(uid types.UID) *simSet {
	for _, s := range sim.sets {
		if s.UID == uid {
			return s
		}
	}
	return nil
}

func (sim *simulation) current() *simSet {
	for _, s := range sim.sets {
		if s.template == sim.template && !s.Deleting {
			return s
		}
	}
	return nil
}

func (sim *simulation) rollout() Rollout {
	r := Rollout{
		Replicas: sim.replicas, Strategy: StrategyType(sim.strategy), Limits: sim.limits(),
		ScaleOnly: sim.paused, HistoryLimit: 2, Now: sim.now,
	}
	current := sim.current()
	for _, s := range sim.sets {
		if s == current {
			r.Current = s.state()
		} else {
			r.Old = append(r.Old, s.state())
		}
	}
	return r
}

// recordBounds adds the limits of the current spec.
func (sim *simulation) recordBounds() {
	limits := sim.limits()
	next := bound{maxMachines: sim.replicas + limits.Surge, minAvailable: sim.replicas - limits.Unavailable}
	sim.reached = sim.reached && next.minAvailable <= sim.bounds[len(sim.bounds)-1].minAvailable
	sim.bounds = append(sim.bounds, next)
	sim.observed = false
}

// dropOldBounds removes the limits of specs that no controller can act on anymore.
func (sim *simulation) dropOldBounds() {
	if sim.pass != nil || !sim.observed {
		return
	}
	for _, s := range sim.sets {
		if s.pass != nil || s.observed < s.gen || Count(s.machines(), 0, sim.now).Replicas > s.state().Replicas {
			return
		}
	}
	if total, _ := sim.count(); max(total, newPlanner(sim.rollout()).size()) <= sim.bounds[len(sim.bounds)-1].maxMachines {
		sim.bounds = sim.bounds[len(sim.bounds)-1:]
	}
	if sim.excused > 0 {
		// The availability that failures cost has to be reached again.
		sim.excused, sim.reached = 0, false
	}
}

func (sim *simulation) maxMachines() int32 {
	return slices.MaxFunc(sim.bounds, func(a, b bound) int { return int(a.maxMachines - b.maxMachines) }).maxMachines
}

func (sim *simulation) minAvailable() int32 {
	return slices.MinFunc(sim.bounds, func(a, b bound) int { return int(a.minAvailable - b.minAvailable) }).minAvailable
}

func (sim *simulation) createMachine(s *simSet) {
	sim.serial++
	name := fmt.Sprintf("%s-m%d", s.Name, sim.serial)
	s.owned = append(s.owned, &simMachine{set: s, Machine: Machine{Name: name, UID: types.UID(name), Created: sim.now}})
	total, _ := sim.count()
	sim.logf("%s creates %s: %d machines", s.Name, name, total)
	if total > sim.maxMachines() {
		sim.fail("%d machines exceed the maximum of %d", total, sim.maxMachines())
	}
}

// deleteMachine deletes a machine. It reports false if the machine has changed since
// the decision.
func (sim *simulation) deleteMachine(s *simSet, decided Machine) bool {
	for _, m := range s.owned {
		if m.UID != decided.UID {
			continue
		}
		if m.Machine != decided {
			return false
		}
		wasAvailable := m.Available(s.MinReady, s.pass.at)
		m.Deleting, m.Ready = true, false
		_, available := sim.count()
		sim.logf("%s deletes %s (available %v): %d available", s.Name, m.Name, wasAvailable, available)
		if wasAvailable && !m.Marked && !s.Deleting && sim.reached && available < sim.minAvailable()-sim.excused-sim.marked() {
			sim.fail("%d available machines are fewer than the minimum of %d (%d are excused)", available, sim.minAvailable(), sim.excused)
		}
		if wasAvailable && m.Marked {
			// The user chose it, although others are unavailable.
			sim.excused++
		}
	}
	return true
}

// marked returns the number of machines that are deleted before unavailable ones.
func (sim *simulation) marked() int32 {
	var n int32
	for _, s := range sim.sets {
		for _, m := range s.owned {
			if m.Marked && !m.Deleting {
				n++
			}
		}
	}
	return n
}

// stepDeployment takes one step of the deployment's controller.
func (sim *simulation) stepDeployment() {
	if sim.pass == nil {
		r := sim.rollout()
		plan := r.Plan()
		sim.reached = sim.reached || newPlanner(r).available() >= r.MinAvailable()
		for _, s := range sim.sets {
			if disabled := r.CreationDisabled(s.state()); s.creationDisabled != disabled && !sim.paused {
				s.creationDisabled = disabled
				s.version++
			}
		}
		sim.pass = &deploymentPass{plan: plan, template: sim.template, replicas: sim.replicas, limit: r.Max(), versions: map[types.UID]int{}}
		for _, s := range sim.sets {
			sim.pass.versions[s.UID] = s.version
		}
		sim.observed = true
		return
	}
	p := sim.pass
	switch {
	case p.next < len(p.plan.Resize):
		to := p.plan.Resize[p.next]
		p.next++
		s := sim.find(to.Set.UID)
		if s == nil || s.version != p.versions[s.UID] {
			sim.pass = nil // A conflict: reconcile again.
			return
		}
		sim.resize(s, to.To)
	case p.plan.Create:
		sim.pass = nil
		if sim.template != p.template || sim.current() != nil {
			return
		}
		sim.serial++
		name := fmt.Sprintf("set%d", sim.serial)
		sim.logf("the deployment creates %s with %d machines", name, p.plan.Size)
		sim.sets = append(sim.sets, &simSet{
			template: p.template, gen: 1, Set: Set{
				Name: name, UID: types.UID(name), Created: sim.now, Replicas: p.plan.Size, Desired: p.replicas, Max: p.limit,
				Revision: int64(sim.serial), MinReady: sim.minReady, Policy: sim.randomPolicy(),
			},
		})
	default:
		for _, removed := range p.plan.Remove {
			if s := sim.find(removed.UID); s != nil {
				s.Deleting = true
				s.gen++
				s.version++
			}
		}
		sim.pass = nil
	}
}

func (sim *simulation) randomPolicy() infrav1.MachineDeletePolicy {
	return []infrav1.MachineDeletePolicy{
		infrav1.RandomMachineDeletePolicy, infrav1.NewestMachineDeletePolicy, infrav1.OldestMachineDeletePolicy,
	}[sim.rng.IntN(3)]
}

func (sim *simulation) resize(s *simSet, to int32) {
	if to > s.Replicas && !sim.pass.plan.Scaling && s.template != sim.pass.template {
		sim.fail("%s grows but is not the current set", s.Name)
	}
	sim.logf("the deployment resizes %s from %d to %d", s.Name, s.Replicas, to)
	if s.Replicas != to {
		s.gen++
	}
	s.Replicas, s.Desired, s.Max = to, sim.pass.replicas, sim.pass.limit
	s.version++
	sim.pass.versions[s.UID] = s.version
}

// stepSet takes one step of a set's controller.
func (sim *simulation) stepSet(s *simSet) {
	switch p := s.pass; {
	case p == nil:
		s.pass = &setPass{gen: s.gen, replicas: s.Replicas, creationDisabled: s.creationDisabled, deleting: s.Deleting}
	case !p.decided:
		if p.gen != s.gen {
			s.pass = nil // The set changed since it was read.
			return
		}
		replicas := p.replicas
		if p.deleting {
			replicas = 0
		}
		diff := DiffReplicas(s.machines(), replicas, s.Policy, s.MinReady, sim.now)
		p.decided, p.create, p.at = true, diff.Create, sim.now
		if p.creationDisabled {
			p.create = 0
		}
		p.remove = diff.Delete
	case p.create > 0:
		p.create--
		sim.createMachine(s)
	case len(p.remove) > 0:
		if !sim.deleteMachine(s, p.remove[0]) {
			s.pass = nil // A conflict: reconcile again.
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
			sim.sets = slices.DeleteFunc(sim.sets, func(other *simSet) bool { return other == s })
		}
	}
}

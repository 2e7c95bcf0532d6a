package machines

import (
	"slices"
)

// stepMachine makes a machine ready, lets it fail, or completes its deletion.
func (sim *simulation) stepMachine(s *simSet) {
	if len(s.owned) == 0 {
		return
	}
	m := s.owned[sim.rng.IntN(len(s.owned))]
	switch {
	case m.Deleting:
		s.owned = slices.DeleteFunc(s.owned, func(other *simMachine) bool { return other == m })
	case !m.Ready && s.template%5 != badTemplate:
		m.Ready, m.ReadySince = true, sim.now
	case m.Ready && sim.failures && !sim.undisturbed && sim.rng.IntN(10) == 0:
		if m.Available(s.MinReady, sim.now) {
			sim.excused++
		}
		m.Ready = false
		sim.logf("%s fails", m.Name)
	}
}

// userAction changes the spec, disturbs machines or restarts the controllers.
func (sim *simulation) userAction() {
	switch sim.rng.IntN(9) {
	case 0, 1:
		sim.replicas = sim.rng.Int32N(12)
		sim.logf("the user scales to %d machines", sim.replicas)
	case 2, 3:
		sim.template++
		sim.logf("the user changes the template to %d", sim.template)
	case 4:
		if len(sim.sets) > 0 {
			sim.template = sim.sets[sim.rng.IntN(len(sim.sets))].template
			sim.logf("the user rolls back to template %d", sim.template)
		}
	case 5:
		sim.paused = !sim.paused
		sim.logf("paused: %v", sim.paused)
	case 6:
		sim.strategy = sim.randomStrategy()
	case 7:
		if sim.failures && len(sim.sets) > 0 {
			sim.disturb(sim.sets[sim.rng.IntN(len(sim.sets))])
		}
	case 8:
		// The controllers restart.
		sim.logf("restart")
		sim.pass = nil
		for _, s := range sim.sets {
			s.pass = nil
		}
	}
	sim.recordBounds()
}

// disturb deletes or marks a machine, or deletes a set.
func (sim *simulation) disturb(s *simSet) {
	if sim.rng.IntN(8) == 0 {
		sim.logf("the user deletes %s", s.Name)
		sim.excused += Count(s.machines(), s.MinReady, sim.now).Available
		s.Deleting = true
		s.gen++
		s.version++
		return
	}
	if len(s.owned) == 0 {
		return
	}
	m := s.owned[sim.rng.IntN(len(s.owned))]
	if sim.rng.IntN(2) == 0 {
		m.Marked = true
		sim.logf("the user marks %s", m.Name)
		sim.excused++ // A plan that was made before may now cost one more available machine.
		return
	}
	if m.Available(s.MinReady, sim.now) {
		sim.excused++
	}
	m.Deleting, m.Ready = true, false
	sim.logf("the user deletes %s", m.Name)
}

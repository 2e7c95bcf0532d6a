package machines

import (
	"slices"
)

// kubelet lets something happen to a machine.
func (w *world) kubelet(s *simSet) {
	if len(s.owned) == 0 {
		return
	}
	m := s.owned[w.rng.IntN(len(s.owned))]
	switch {
	case m.Deleting:
		s.owned = slices.DeleteFunc(s.owned, func(other *simMachine) bool { return other == m })
	case !m.Ready && s.template%5 != badTemplate:
		m.Ready, m.Since = true, w.now
	case m.Ready && w.failures && !w.calm && w.rng.IntN(10) == 0:
		if m.Available(s.MinReady, w.now) {
			w.debt++
		}
		m.Ready = false
		w.note("%s fails", m.Name)
	}
}

// person changes what is wanted.
func (w *world) person() {
	switch w.rng.IntN(9) {
	case 0, 1:
		w.replicas = w.rng.Int32N(12)
		w.note("somebody wants %d machines", w.replicas)
	case 2, 3:
		w.template++
		w.note("somebody changes the template to %d", w.template)
	case 4:
		if len(w.sets) > 0 {
			w.template = w.sets[w.rng.IntN(len(w.sets))].template
			w.note("somebody rolls back to template %d", w.template)
		}
	case 5:
		w.paused = !w.paused
		w.note("paused: %v", w.paused)
	case 6:
		w.strategy = w.anyStrategy()
	case 7:
		if w.failures && len(w.sets) > 0 {
			w.vandalise(w.sets[w.rng.IntN(len(w.sets))])
		}
	case 8:
		// The controllers restart.
		w.note("restart")
		w.pass = nil
		for _, s := range w.sets {
			s.pass = nil
		}
	}
	w.asked()
}

// vandalise deletes or marks a machine, or deletes a set.
func (w *world) vandalise(s *simSet) {
	if w.rng.IntN(8) == 0 {
		w.note("somebody deletes %s", s.Name)
		w.debt += Count(s.machines(), s.MinReady, w.now).Available
		s.Deleting = true
		s.gen++
		s.version++
		return
	}
	if len(s.owned) == 0 {
		return
	}
	m := s.owned[w.rng.IntN(len(s.owned))]
	if w.rng.IntN(2) == 0 {
		m.Marked = true
		w.note("somebody marks %s", m.Name)
		w.debt++ // What was planned without the mark may now cost one more.
		return
	}
	if m.Available(s.MinReady, w.now) {
		w.debt++
	}
	m.Deleting, m.Ready = true, false
	w.note("somebody deletes %s", m.Name)
}

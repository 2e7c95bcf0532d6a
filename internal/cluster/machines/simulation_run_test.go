package machines

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func (w *world) anyStrategy() *infrav1.MachineDeploymentStrategy {
	if w.rng.IntN(6) == 0 {
		return &infrav1.MachineDeploymentStrategy{Type: infrav1.OnDeleteStrategy}
	}
	surge, unavailable := intstr.FromInt32(w.rng.Int32N(4)), intstr.FromInt32(w.rng.Int32N(4))
	if w.rng.IntN(3) == 0 {
		surge = intstr.FromString([]string{"0%", "10%", "25%", "100%"}[w.rng.IntN(4)])
	}
	if w.rng.IntN(3) == 0 {
		unavailable = intstr.FromString([]string{"0%", "10%", "25%", "100%"}[w.rng.IntN(4)])
	}
	return &infrav1.MachineDeploymentStrategy{
		Type: infrav1.RollingUpdateStrategy, RollingUpdate: &infrav1.RollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}
}

// step lets one of those who act do so.
func (w *world) step() {
	w.settle()
	w.now = w.now.Add(time.Duration(w.rng.IntN(300)) * time.Millisecond)
	switch n := w.rng.IntN(100); {
	case n < 3 && !w.calm:
		w.person()
	case n < 30 || len(w.sets) == 0:
		w.deployment()
	case n < 75:
		w.set(w.sets[w.rng.IntN(len(w.sets))])
	default:
		w.kubelet(w.sets[w.rng.IntN(len(w.sets))])
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		failures: seed%2 == 0, template: 1,
	}
	w.replicas = w.rng.Int32N(10) + 1
	w.strategy = w.anyStrategy()
	if w.rng.IntN(2) == 0 {
		w.minReady = time.Duration(w.rng.IntN(5)) * time.Second
	}
	w.asked()
	return w
}

func TestSimulation_keepsItsPromises(t *testing.T) {
	completed := 0
	for i := range uint64(worlds) {
		if *seed != 0 && i+1 != *seed {
			continue
		}
		w := newWorld(t, i+1)
		for range steps {
			w.step()
		}
		w.comesToRest()
		completed++
	}
	t.Logf("%d worlds of %d steps", completed, steps)
}

// comesToRest leaves the world alone until everything is as it was asked for.
func (w *world) comesToRest() {
	w.calm, w.paused = true, false
	if w.template%5 == badTemplate {
		w.template++
	}
	if TypeOf(w.strategy) == infrav1.OnDeleteStrategy {
		w.strategy = nil
	}
	w.asked()
	for range 20000 {
		if w.atRest() {
			return
		}
		w.step()
	}
	w.fail("no rest")
}

func (w *world) atRest() bool {
	if w.pass != nil || slices.ContainsFunc(w.sets, func(s *simSet) bool { return s.pass != nil }) {
		return false
	}
	r := w.rollout()
	if !r.Plan().Empty() || !r.Complete() {
		return false
	}
	total, available := w.count()
	if total != w.replicas || available != w.replicas {
		w.fail("at rest with %d machines, %d available", total, available)
	}
	return len(w.sets) <= 3
}

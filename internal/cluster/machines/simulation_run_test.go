package machines

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func (sim *simulation) randomStrategy() *infrav1.MachineDeploymentStrategy {
	if sim.rng.IntN(6) == 0 {
		return &infrav1.MachineDeploymentStrategy{Type: infrav1.OnDeleteStrategy}
	}
	surge, unavailable := intstr.FromInt32(sim.rng.Int32N(4)), intstr.FromInt32(sim.rng.Int32N(4))
	if sim.rng.IntN(3) == 0 {
		surge = intstr.FromString([]string{"0%", "10%", "25%", "100%"}[sim.rng.IntN(4)])
	}
	if sim.rng.IntN(3) == 0 {
		unavailable = intstr.FromString([]string{"0%", "10%", "25%", "100%"}[sim.rng.IntN(4)])
	}
	return &infrav1.MachineDeploymentStrategy{
		Type: infrav1.RollingUpdateStrategy, RollingUpdate: &infrav1.RollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}
}

// step lets a controller, the user or a machine act.
func (sim *simulation) step() {
	sim.dropOldBounds()
	sim.now = sim.now.Add(time.Duration(sim.rng.IntN(300)) * time.Millisecond)
	switch n := sim.rng.IntN(100); {
	case n < 3 && !sim.undisturbed:
		sim.userAction()
	case n < 30 || len(sim.sets) == 0:
		sim.stepDeployment()
	case n < 75:
		sim.stepSet(sim.sets[sim.rng.IntN(len(sim.sets))])
	default:
		sim.stepMachine(sim.sets[sim.rng.IntN(len(sim.sets))])
	}
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	sim := &simulation{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		failures: seed%2 == 0, template: 1,
	}
	sim.replicas = sim.rng.Int32N(10) + 1
	sim.strategy = sim.randomStrategy()
	if sim.rng.IntN(2) == 0 {
		sim.minReady = time.Duration(sim.rng.IntN(5)) * time.Second
	}
	sim.recordBounds()
	return sim
}

func TestSimulation_keepsLimits(t *testing.T) {
	completed := 0
	for i := range uint64(simulations) {
		if *seed != 0 && i+1 != *seed {
			continue
		}
		sim := newSimulation(t, i+1)
		for range steps {
			sim.step()
		}
		sim.runUntilRest()
		completed++
	}
	t.Logf("%d simulations of %d steps", completed, steps)
}

// runUntilRest runs without disturbances until the deployment is rolled out.
func (sim *simulation) runUntilRest() {
	sim.undisturbed, sim.paused = true, false
	if sim.template%5 == badTemplate {
		sim.template++
	}
	if StrategyType(sim.strategy) == infrav1.OnDeleteStrategy {
		sim.strategy = nil
	}
	sim.recordBounds()
	for range 20000 {
		if sim.atRest() {
			return
		}
		sim.step()
	}
	sim.fail("the deployment does not come to rest")
}

func (sim *simulation) atRest() bool {
	if sim.pass != nil || slices.ContainsFunc(sim.sets, func(s *simSet) bool { return s.pass != nil }) {
		return false
	}
	r := sim.rollout()
	if !r.Plan().Empty() || !r.Complete() {
		return false
	}
	total, available := sim.count()
	if total != sim.replicas || available != sim.replicas {
		sim.fail("at rest with %d machines, %d available", total, available)
	}
	return len(sim.sets) <= 3
}

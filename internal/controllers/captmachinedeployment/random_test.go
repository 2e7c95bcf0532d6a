package captmachinedeployment

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/testenv/waits"
)

var (
	seed = flag.Uint64("seed", 0, "seed of the randomized test; 0 uses the current time")
	long = flag.Duration("random", 8*time.Second, "duration of the changes of the randomized test")
)

const drain = "test.capt.appthrust.io/drain"

// scenario is a deployment with random changes and failures.
type scenario struct {
	*guarantees
	d *infrav1.CAPTMachineDeployment
	// machinesFail reports whether machines fail.
	machinesFail bool
	// undisturbed reports whether machines no longer fail.
	undisturbed bool
	kubelet     *rand.Rand
	user        *rand.Rand
}

// TestDeployments_keepGuarantees changes deployments, machines fail and controllers
// restart at random. It checks each event of the machines.
func TestDeployments_keepGuarantees(t *testing.T) {
	g := NewWithT(t)
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d; the order of events may still differ", *seed)

	var all []*scenario
	for i := range uint64(4) {
		all = append(all, newScenario(t, *seed+i, i%2 == 1))
	}
	watchAll(t, all)
	for _, s := range all {
		create(t, s.d)
	}
	rng := rand.New(rand.NewPCG(*seed, 99))
	stop := startControllers(t)
	restarts := 0
	for deadline := time.Now().Add(*long); time.Now().Before(deadline); {
		for _, s := range all {
			s.change(t)
		}
		if rng.IntN(10) == 0 {
			stop()
			stop = startControllers(t)
			restarts++
		}
		s := all[rng.IntN(len(all))]
		waitAtMost(t, time.Duration(rng.IntN(400))*time.Millisecond, func() bool { return s.observe(t) })
		for _, s := range all {
			if violation := s.firstViolation(); violation != "" {
				t.Fatalf("seed %d: %s", *seed, violation)
			}
		}
	}
	for _, s := range all {
		s.finish(t)
	}
	for _, s := range all {
		g.Eventually(func(g Gomega) { s.expectComplete(t, g) }, 2*waits.Timeout).Should(Succeed(), "seed %d", *seed)
		g.Expect(s.firstViolation()).To(BeEmpty(), "seed %d", *seed)
		t.Logf("%d events of machines, sets grew %d and shrank %d times, settled %d times, %d restarts", s.events, s.grown, s.shrunk, s.settled, restarts)
	}
	stop()
}

func newScenario(t *testing.T, seed uint64, failures bool) *scenario {
	t.Helper()
	s := &scenario{
		guarantees: newGuarantees(), machinesFail: failures,
		kubelet: rand.New(rand.NewPCG(seed, 1)), user: rand.New(rand.NewPCG(seed, 2)),
	}
	s.d = deploymentIn(newCluster(t).Namespace, 3, func(d *infrav1.CAPTMachineDeployment) {
		d.Labels[clusterv1.WatchLabel] = byRestarts
		d.Spec.RevisionHistoryLimit = new(int32(3))
		d.Spec.Strategy = s.randomStrategy()
	})
	s.bounds = []bound{boundOf(s.d)}
	return s
}

// startControllers starts both controllers in a manager of their own. It returns a
// function that stops them.
func startControllers(t *testing.T) func() {
	t.Helper()
	options := ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = new(true)
	// The priority queue of controller-runtime sometimes never stops: it hands an item
	// to a worker that has exited, while it holds its lock.
	options.Controller.UsePriorityQueue = new(false)
	account, err := env.ManagerAccount()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(account.Config, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(controllers(mgr, byRestarts)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	// Stopping before the caches are synchronized may block.
	NewWithT(t).Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping the controllers: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// watchAll watches machines and sets and simulates kubelets until the test ends.
func watchAll(t *testing.T, all []*scenario) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	follow := func(list client.ObjectList, namespace string, observe func(watch.Event)) {
		w, err := env.Watch(ctx, list, client.InNamespace(namespace))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		wg.Go(func() {
			for e := range w.ResultChan() {
				observe(e)
			}
			if ctx.Err() == nil {
				t.Error("a watch ended")
			}
		})
	}
	for _, s := range all {
		follow(&infrav1.CAPTMachineList{}, s.d.Namespace, s.observeMachine)
		follow(&infrav1.CAPTMachineSetList{}, s.d.Namespace, s.observeSet)
		wg.Go(func() { s.simulateKubelet(ctx) })
	}
}

// simulateKubelet makes machines ready, lets them fail, and delays their deletion.
func (s *scenario) simulateKubelet(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		var all []*infrav1.CAPTMachine
		for _, m := range s.machines {
			all = append(all, m.DeepCopy())
		}
		undisturbed := s.undisturbed
		s.mu.Unlock()
		slices.SortFunc(all, func(a, b *infrav1.CAPTMachine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		for _, m := range all {
			s.changeMachine(ctx, m, undisturbed)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(10+s.kubelet.IntN(30)) * time.Millisecond):
		}
	}
}

// changeMachine changes a machine at random. Conflicts are ignored.
func (s *scenario) changeMachine(ctx context.Context, m *infrav1.CAPTMachine, undisturbed bool) {
	n := s.kubelet.IntN(100)
	ready := machines.MachineOf(m).Ready
	switch {
	case !m.DeletionTimestamp.IsZero():
		if n < 30 && controllerutil.RemoveFinalizer(m, drain) {
			_ = env.Client.Update(ctx, m)
		}
	case !ready && m.Spec.InstanceType != broken && n < 40:
		_ = setReady(ctx, m, metav1.ConditionTrue)
	case ready && n < 30 && controllerutil.AddFinalizer(m, drain):
		_ = env.Client.Update(ctx, m)
	case ready && s.machinesFail && !undisturbed && n == 99:
		s.recordFailure(m.Name)
		_ = setReady(ctx, m, metav1.ConditionFalse)
	}
}

func (s *scenario) randomStrategy() *infrav1.MachineDeploymentStrategy {
	surge, unavailable := intstr.FromInt32(s.user.Int32N(3)), intstr.FromInt32(s.user.Int32N(3))
	if s.user.IntN(3) == 0 {
		surge = intstr.FromString("25%")
	}
	if surge.IntValue() == 0 && unavailable.IntValue() == 0 && surge.Type == intstr.Int {
		surge = intstr.FromInt32(1)
	}
	return &infrav1.MachineDeploymentStrategy{
		Type:          infrav1.RollingUpdateStrategy,
		RollingUpdate: &infrav1.RollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}
}

// change changes the spec at random, or does nothing.
func (s *scenario) change(t *testing.T) {
	t.Helper()
	var change changeOf
	scaling := false
	switch s.user.IntN(16) {
	case 0, 1:
		n := s.user.Int32N(7)
		scaling = true
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Replicas = &n }
	case 2, 3:
		n := s.user.IntN(1000)
		change = instanceType("m7g." + strconv.Itoa(n))
	case 4:
		change = instanceType(broken)
	case 5:
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = new(int64(0)) }
	case 6:
		n := s.user.IntN(1000)
		change = func(d *infrav1.CAPTMachineDeployment) {
			d.Spec.Template.Spec.Tags = map[string]string{"n": strconv.Itoa(n)}
		}
	case 7:
		scaling = true
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Paused = new(!ptr.Deref(d.Spec.Paused, false)) }
	case 8:
		scaling = true
		strategy := s.randomStrategy()
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Strategy = strategy }
	default:
		return
	}
	s.updateSpec(t, change, scaling)
}

func (s *scenario) updateSpec(t *testing.T, change changeOf, scaling bool) {
	t.Helper()
	update(t, s.d, func(d *infrav1.CAPTMachineDeployment) {
		// A rollback to a revision that does not exist would block the rollout.
		d.Spec.RollbackTo = nil
		change(d)
		s.recordSpec(d, scaling)
	})
}

// observe reports whether the controllers have nothing to do.
func (s *scenario) observe(t *testing.T) bool {
	t.Helper()
	ctx := t.Context()
	var d infrav1.CAPTMachineDeployment
	var sets infrav1.CAPTMachineSetList
	var all infrav1.CAPTMachineList
	if env.Client.Get(ctx, client.ObjectKeyFromObject(s.d), &d) != nil ||
		env.Client.List(ctx, &sets, client.InNamespace(s.d.Namespace)) != nil ||
		env.Client.List(ctx, &all, client.InNamespace(s.d.Namespace)) != nil {
		return false
	}
	return s.dropOldBounds(&d, sets.Items, all.Items)
}

// waitAtMost waits until the condition is met or the time is over.
func waitAtMost(t *testing.T, d time.Duration, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline) && !met(); {
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// finish writes a working spec and stops the disturbances.
func (s *scenario) finish(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	s.undisturbed = true
	s.mu.Unlock()
	s.updateSpec(t, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Paused, d.Spec.RollbackTo, d.Spec.Replicas = nil, nil, new(int32(4))
		d.Spec.Template.Spec.InstanceType = "m7g.last"
	}, true)
}

func (s *scenario) expectComplete(t *testing.T, g Gomega) {
	t.Helper()
	var d infrav1.CAPTMachineDeployment
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.d), &d)).To(Succeed())
	g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
	g.Expect(d.Status.Conditions).To(ContainElement(And(HaveField("Type", infrav1.ReadyCondition), HaveField("Status", metav1.ConditionTrue))))
	g.Expect(d.Status.UpdatedReplicas).To(HaveValue(BeEquivalentTo(4)))
	g.Expect(alive(t, s.d.Namespace)).To(And(HaveLen(4), HaveEach(HaveField("Spec.InstanceType", "m7g.last"))))
	g.Expect(len(setsOf(t, s.d.Namespace))).To(BeNumerically("<=", 1+3), "the history should be limited")
}

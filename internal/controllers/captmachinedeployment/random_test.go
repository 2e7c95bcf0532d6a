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
)

var (
	seed = flag.Uint64("seed", 0, "seed of the randomised test; 0 takes the time")
	long = flag.Duration("random", 8*time.Second, "how long the randomised test changes things")
)

const drain = "test.capt.appthrust.io/drain"

// scenario is a deployment to which things happen.
type scenario struct {
	*promises
	d        *infrav1.CAPTMachineDeployment
	failures bool
	calm     bool
	kubelet  *rand.Rand
	person   *rand.Rand
}

// TestDeployments_keepTheirPromises lets people, machines and restarts do what
// they like to some deployments, and checks each event of their machines.
func TestDeployments_keepTheirPromises(t *testing.T) {
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
			s.act(t)
		}
		if rng.IntN(10) == 0 {
			stop()
			stop = startControllers(t)
			restarts++
		}
		s := all[rng.IntN(len(all))]
		waitAWhile(t, time.Duration(rng.IntN(400))*time.Millisecond, func() bool { return s.settles(t) })
		for _, s := range all {
			if broken := s.verdict(); broken != "" {
				t.Fatalf("seed %d: %s", *seed, broken)
			}
		}
	}
	for _, s := range all {
		s.rest(t)
	}
	for _, s := range all {
		g.Eventually(func(g Gomega) { s.isComplete(t, g) }, 2*patience, often).Should(Succeed(), "seed %d", *seed)
		g.Expect(s.verdict()).To(BeEmpty(), "seed %d", *seed)
		t.Logf("%d events of machines, sets grew %d and shrank %d times, settled %d times, %d restarts", s.events, s.grown, s.shrunk, s.settled, restarts)
	}
	stop()
}

func newScenario(t *testing.T, seed uint64, failures bool) *scenario {
	t.Helper()
	s := &scenario{
		promises: newPromises(), failures: failures,
		kubelet: rand.New(rand.NewPCG(seed, 1)), person: rand.New(rand.NewPCG(seed, 2)),
	}
	s.d = deploymentIn(newCluster(t).Namespace, 3, func(d *infrav1.CAPTMachineDeployment) {
		d.Labels[clusterv1.WatchLabel] = byRestarts
		d.Spec.RevisionHistoryLimit = new(int32(3))
		d.Spec.Strategy = s.anyStrategy()
	})
	s.bounds = []bound{boundOf(s.d)}
	return s
}

// startControllers runs both controllers in a manager of their own, until the
// result is called.
func startControllers(t *testing.T) func() {
	t.Helper()
	options := ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = new(true)
	// Controller-runtime's priority queue sometimes never stops: it hands out an
	// item, holding its lock, to a worker that has left.
	options.Controller.UsePriorityQueue = new(false)
	mgr, err := ctrl.NewManager(env.Config, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(controllers(mgr, byRestarts)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	// Who stops before the caches are there may have to wait for them.
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

// watchAll follows machines and sets, and plays the machines, until the test
// ends.
func watchAll(t *testing.T, all []*scenario) {
	t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	follow := func(list client.ObjectList, namespace string, take func(watch.Event)) {
		w, err := c.Watch(ctx, list, client.InNamespace(namespace))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		wg.Go(func() {
			for e := range w.ResultChan() {
				take(e)
			}
			if ctx.Err() == nil {
				t.Error("a watch ended")
			}
		})
	}
	for _, s := range all {
		follow(&infrav1.CAPTMachineList{}, s.d.Namespace, s.machine)
		follow(&infrav1.CAPTMachineSetList{}, s.d.Namespace, s.set)
		wg.Go(func() { s.playKubelet(ctx) })
	}
}

// playKubelet makes machines ready, lets them fail, and lets them go slowly.
func (s *scenario) playKubelet(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		var all []*infrav1.CAPTMachine
		for _, m := range s.machines {
			all = append(all, m.DeepCopy())
		}
		calm := s.calm
		s.mu.Unlock()
		slices.SortFunc(all, func(a, b *infrav1.CAPTMachine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		for _, m := range all {
			s.happen(ctx, m, calm)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(10+s.kubelet.IntN(30)) * time.Millisecond):
		}
	}
}

// happen lets something happen to a machine. What others wrote meanwhile wins.
func (s *scenario) happen(ctx context.Context, m *infrav1.CAPTMachine, calm bool) {
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
	case ready && s.failures && !calm && n == 99:
		s.fails(m.Name)
		_ = setReady(ctx, m, metav1.ConditionFalse)
	}
}

func (s *scenario) anyStrategy() *infrav1.MachineDeploymentStrategy {
	surge, unavailable := intstr.FromInt32(s.person.Int32N(3)), intstr.FromInt32(s.person.Int32N(3))
	if s.person.IntN(3) == 0 {
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

// act lets a person change something, or not.
func (s *scenario) act(t *testing.T) {
	t.Helper()
	var change changeOf
	scaling := false
	switch s.person.IntN(16) {
	case 0, 1:
		n := s.person.Int32N(7)
		scaling = true
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Replicas = &n }
	case 2, 3:
		n := s.person.IntN(1000)
		change = instanceType("m7g." + strconv.Itoa(n))
	case 4:
		change = instanceType(broken)
	case 5:
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.RollbackTo = new(int64(0)) }
	case 6:
		n := s.person.IntN(1000)
		change = func(d *infrav1.CAPTMachineDeployment) {
			d.Spec.Template.Spec.Tags = map[string]string{"n": strconv.Itoa(n)}
		}
	case 7:
		scaling = true
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Paused = new(!ptr.Deref(d.Spec.Paused, false)) }
	case 8:
		scaling = true
		strategy := s.anyStrategy()
		change = func(d *infrav1.CAPTMachineDeployment) { d.Spec.Strategy = strategy }
	default:
		return
	}
	s.ask(t, change, scaling)
}

func (s *scenario) ask(t *testing.T, change changeOf, scaling bool) {
	t.Helper()
	update(t, s.d, func(d *infrav1.CAPTMachineDeployment) {
		// A wish that cannot be fulfilled would hold everything up.
		d.Spec.RollbackTo = nil
		change(d)
		s.asked(d, scaling)
	})
}

// settles sees whether everybody has done what there was to do.
func (s *scenario) settles(t *testing.T) bool {
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
	return s.settle(&d, sets.Items, all.Items)
}

// waitAWhile waits until the time is over, or the condition is met.
func waitAWhile(t *testing.T, d time.Duration, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline) && !met(); {
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rest asks for something that works and leaves it alone.
func (s *scenario) rest(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.ask(t, func(d *infrav1.CAPTMachineDeployment) {
		d.Spec.Paused, d.Spec.RollbackTo, d.Spec.Replicas = nil, nil, new(int32(4))
		d.Spec.Template.Spec.InstanceType = "m7g.last"
	}, true)
}

func (s *scenario) isComplete(t *testing.T, g Gomega) {
	t.Helper()
	var d infrav1.CAPTMachineDeployment
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.d), &d)).To(Succeed())
	g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
	g.Expect(d.Status.Conditions).To(ContainElement(And(HaveField("Type", infrav1.ReadyCondition), HaveField("Status", metav1.ConditionTrue))))
	g.Expect(d.Status.UpdatedReplicas).To(HaveValue(BeEquivalentTo(4)))
	g.Expect(alive(t, s.d.Namespace)).To(And(HaveLen(4), HaveEach(HaveField("Spec.InstanceType", "m7g.last"))))
	g.Expect(len(setsOf(t, s.d.Namespace))).To(BeNumerically("<=", 1+3), "history is kept within its limit")
}

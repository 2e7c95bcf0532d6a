package captmachinedeployment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/machines"
	"github.com/appthrust/capt/internal/cluster/ownership"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// staleCache is a cache with outdated sets and machines.
type staleCache struct {
	client.Client
	sets     []infrav1.CAPTMachineSet
	machines []infrav1.CAPTMachine
}

func (l *staleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	controlledBy := func(obj client.Object, index string) bool {
		uid, _ := o.FieldSelector.RequiresExactMatch(index)
		controller := metav1.GetControllerOf(obj)
		return controller == nil && uid == ownership.NoController || controller != nil && string(controller.UID) == uid
	}
	switch list := list.(type) {
	case *infrav1.CAPTMachineSetList:
		for _, set := range l.sets {
			if controlledBy(&set, setIndex) {
				list.Items = append(list.Items, set)
			}
		}
	case *infrav1.CAPTMachineList:
		for _, m := range l.machines {
			if controlledBy(&m, machineIndex) {
				list.Items = append(list.Items, m)
			}
		}
	default:
		return l.Client.List(ctx, list, opts...)
	}
	return nil
}

// refresh updates the cache.
func (l *staleCache) refresh(t *testing.T, namespace string) {
	t.Helper()
	var sets infrav1.CAPTMachineSetList
	var all infrav1.CAPTMachineList
	NewWithT(t).Expect(env.Client.List(t.Context(), &sets, client.InNamespace(namespace))).To(Succeed())
	NewWithT(t).Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	l.sets, l.machines = sets.Items, all.Items
}

func TestDeployment_decidesNothingWithStaleCache(t *testing.T) {
	g := NewWithT(t)
	const byHand = "hand"
	d := create(t, deploymentIn(newCluster(t).Namespace, 3, rolling(1, 0), func(d *infrav1.CAPTMachineDeployment) {
		d.Labels[clusterv1.WatchLabel] = byHand
	}))
	cache := &staleCache{Client: env.Client}
	reconcile := func(times int) {
		for range times {
			// Each time a new manager without memory.
			frame := (&Reconciler{
				Client: cache, APIReader: env.Client, Recorder: events.NewFakeRecorder(1000), WatchFilter: byHand, Now: time.Now,
				Workspaces: &workspace.Keeper{Client: cache, Live: env.Client},
			}).frame()
			g.Expect(frame.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(d)})).Error().NotTo(HaveOccurred())
		}
	}
	// resizeSets gives each set its machines, as the controller of sets does.
	resizeSets := func() {
		for _, set := range setsOf(t, d.Namespace) {
			set.Status.ObservedGeneration = set.Generation
			g.Expect(env.Client.Status().Update(t.Context(), set)).To(Succeed())
			existing := 0
			for _, m := range alive(t, d.Namespace) {
				if metav1.IsControlledBy(m, set) {
					if existing++; existing > int(*set.Spec.Replicas) {
						g.Expect(env.Client.Delete(t.Context(), m)).To(Succeed())
					}
				}
			}
			for ; existing < int(*set.Spec.Replicas); existing++ {
				m := create(t, machineOf(set))
				g.Expect(setReady(t.Context(), m, metav1.ConditionTrue)).To(Succeed())
			}
		}
	}

	reconcile(3)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 3 m7g.large"}), "a set that the cache does not have should not be created again")
	tester(t).Get(d)
	g.Expect(d.Status.CollisionCount).To(BeNil(), "the existing set is not a collision")

	resizeSets()
	cache.refresh(t, d.Namespace)
	update(t, d, instanceType("m7g.xlarge"))
	reconcile(3)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 3 m7g.large", "2: 1 m7g.xlarge"}))
	resizeSets()
	cache.refresh(t, d.Namespace)

	// One old machine may go. While the cache still has it, no other may go.
	reconcile(4)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 2 m7g.large", "2: 1 m7g.xlarge"}))
	resizeSets()
	reconcile(4)
	g.Expect(sizes(t, d.Namespace)).To(Equal([]string{"1: 2 m7g.large", "2: 2 m7g.xlarge"}), "the API server should decide, not the stale cache")
}

// machineOf returns a machine as the set creates it.
func machineOf(set *infrav1.CAPTMachineSet) *infrav1.CAPTMachine {
	return machines.NewMachine(set, machines.MachineName(set.Name))
}

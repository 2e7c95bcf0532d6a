package captmachineset

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/ownership"
)

// staleCache is a cache with outdated machines.
type staleCache struct {
	client.Client
	machines []infrav1.CAPTMachine
	// creates counts attempts to create a machine. Those after allowed fail.
	creates *atomic.Int32
	allowed int32
	// set, if not nil, is an outdated version of the set.
	set *infrav1.CAPTMachineSet
	// beforeDelete is called after the decision to delete a machine.
	beforeDelete func(client.Object)
}

func (l *staleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	all, ok := list.(*infrav1.CAPTMachineList)
	if !ok {
		return l.Client.List(ctx, list, opts...)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	uid, _ := o.FieldSelector.RequiresExactMatch(controllerIndex)
	for _, m := range l.machines {
		controller := metav1.GetControllerOf(&m)
		if controller == nil && uid == ownership.NoController || controller != nil && string(controller.UID) == uid {
			all.Items = append(all.Items, m)
		}
	}
	return nil
}

func (l *staleCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if set, ok := obj.(*infrav1.CAPTMachineSet); ok && l.set != nil {
		l.set.DeepCopyInto(set)
		return nil
	}
	return l.Client.Get(ctx, key, obj, opts...)
}

func (l *staleCache) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if l.creates != nil && l.creates.Add(1) > l.allowed {
		return errors.New("quota exceeded")
	}
	return l.Client.Create(ctx, obj, opts...)
}

func (l *staleCache) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if l.beforeDelete != nil {
		l.beforeDelete(obj)
	}
	return l.Client.Delete(ctx, obj, opts...)
}

// handReconciler returns a reconciler for the sets that tests reconcile.
func handReconciler(c client.Client) *Reconciler {
	return &Reconciler{Client: c, APIReader: env.Client, Recorder: events.NewFakeRecorder(1000), WatchFilter: byHand, Now: time.Now}
}

func handSet(t *testing.T, replicas int32) (*infrav1.CAPTMachineSet, ctrl.Request) {
	t.Helper()
	set := newSet(t, replicas, func(s *infrav1.CAPTMachineSet) { s.Labels[clusterv1.WatchLabel] = byHand })
	return set, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}
}

func TestSet_createsNoSurplusWithStaleCache(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 3)
	cache := &staleCache{Client: env.Client}

	for range 4 {
		// Each time a new manager without memory, and with an empty cache.
		frame := handReconciler(cache).frame()
		for range 3 {
			g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
			g.Expect(len(list(t, set.Namespace))).To(BeNumerically("<=", 3))
		}
	}

	g.Expect(list(t, set.Namespace)).To(HaveLen(3))
	tester(t).Get(set)
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(3)), "the status should not depend on the stale cache")
}

func TestSet_deletesNoSurplusWithStaleCache(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 4)
	cache := &staleCache{Client: env.Client}
	frame := handReconciler(cache).frame()
	for range 2 {
		g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
	}
	var all infrav1.CAPTMachineList
	g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(set.Namespace))).To(Succeed())
	cache.machines = all.Items
	g.Expect(cache.machines).To(HaveLen(4))

	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(2)) })
	for range 5 {
		g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
		g.Expect(len(list(t, set.Namespace))).To(BeNumerically(">=", 2))
	}

	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
}

func TestSet_doesNothingWithOldVersionOfItself(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 2)
	frame := handReconciler(&staleCache{Client: env.Client}).frame()
	for range 2 {
		g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
	}
	tester(t).Get(set)
	old := set.DeepCopy()
	old.Spec.Replicas = new(int32(5))
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(1)) })

	// The cache still has five desired machines.
	g.Expect(handReconciler(&staleCache{Client: env.Client, set: old}).frame().Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred(), "a conflict is retried")
	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
}

func TestSet_adoptsNothingWhileBeingDeleted(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 1)
	frame := handReconciler(&staleCache{Client: env.Client}).frame()
	g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
	tester(t).Get(set)
	old := set.DeepCopy()
	orphan := create(t, machineIn(set.Namespace, "orphan", map[string]string{"pool": "workers"}))
	g.Expect(env.Client.Delete(t.Context(), set)).To(Succeed())

	// The cache has neither the deletion nor the set's own machine.
	cache := &staleCache{Client: env.Client, set: old, machines: []infrav1.CAPTMachine{*orphan}}
	g.Expect(handReconciler(cache).frame().Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred(), "a conflict is retried")
	tester(t).Get(orphan)
	g.Expect(orphan.OwnerReferences).To(BeEmpty())
}

func TestSet_adoptsNothingForPredecessorWithSameName(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 1)
	old := set.DeepCopy()
	old.Finalizers = []string{infrav1.CAPTMachineSetFinalizer}
	g.Expect(env.Client.Delete(t.Context(), set)).To(Succeed())
	create(t, setIn(set.Namespace, 1, func(s *infrav1.CAPTMachineSet) { s.Labels[clusterv1.WatchLabel] = byHand }))
	orphan := create(t, machineIn(set.Namespace, "orphan", map[string]string{"pool": "workers"}))

	// The cache still has the first set.
	g.Expect(handReconciler(&staleCache{Client: env.Client, set: old, machines: []infrav1.CAPTMachine{*orphan}}).frame().Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred(), "a conflict is retried")
	tester(t).Get(orphan)
	g.Expect(orphan.OwnerReferences).To(BeEmpty())
}

func TestSet_keepsMachineThatBecomesReady(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 2)
	cache := &staleCache{Client: env.Client}
	frame := handReconciler(cache).frame()
	for range 2 {
		g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())
	}
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(1)) })
	var chosen string
	cache.beforeDelete = func(obj client.Object) {
		chosen = obj.GetName()
		m := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: chosen}}
		setReady(t, m, metav1.ConditionTrue)
		cache.beforeDelete = nil
	}

	g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred(), "a conflict is retried")
	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
	g.Expect(frame.Reconcile(t.Context(), request)).Error().NotTo(HaveOccurred())

	g.Expect(list(t, set.Namespace)).To(ConsistOf(HaveField("Name", chosen)), "the machine that is not ready should go")
}

func TestSet_stopsCreatingMachinesAfterFailure(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 100)
	cache := &staleCache{Client: env.Client, creates: &atomic.Int32{}, allowed: 5}
	frame := handReconciler(cache).frame()

	g.Expect(frame.Reconcile(t.Context(), request)).Error().To(MatchError(ContainSubstring("quota exceeded")))
	g.Expect(cache.creates.Load()).To(BeEquivalentTo(5+1), "the creation that fails should be the last one")
	g.Expect(list(t, set.Namespace)).To(HaveLen(5))
	tester(t).Get(set)
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(5)))
	g.Expect(set.Status.Conditions).To(ContainElement(And(
		HaveField("Type", infrav1.ReplicasInSyncCondition), HaveField("Status", metav1.ConditionUnknown), HaveField("Message", ContainSubstring("quota exceeded")))))
}

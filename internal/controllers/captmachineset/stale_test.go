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

// lagging is a cache that shows machines as they once were.
type lagging struct {
	client.Client
	shown []infrav1.CAPTMachine
	// creates counts attempts to make a machine; those after allowed fail.
	creates *atomic.Int32
	allowed int32
	// set, if set, is what is shown of the set.
	set *infrav1.CAPTMachineSet
	// beforeDelete happens between the decision for a machine and its deletion.
	beforeDelete func(client.Object)
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	machines, ok := list.(*infrav1.CAPTMachineList)
	if !ok {
		return l.Client.List(ctx, list, opts...)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	uid, _ := o.FieldSelector.RequiresExactMatch(controllerIndex)
	for _, m := range l.shown {
		controller := metav1.GetControllerOf(&m)
		if controller == nil && uid == ownership.NoController || controller != nil && string(controller.UID) == uid {
			machines.Items = append(machines.Items, m)
		}
	}
	return nil
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if set, ok := obj.(*infrav1.CAPTMachineSet); ok && l.set != nil {
		l.set.DeepCopyInto(set)
		return nil
	}
	return l.Client.Get(ctx, key, obj, opts...)
}

func (l *lagging) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if l.creates != nil && l.creates.Add(1) > l.allowed {
		return errors.New("quota exceeded")
	}
	return l.Client.Create(ctx, obj, opts...)
}

func (l *lagging) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if l.beforeDelete != nil {
		l.beforeDelete(obj)
	}
	return l.Client.Delete(ctx, obj, opts...)
}

// handReconciler reconciles sets that only the test keeps.
func handReconciler(c client.Client) *Reconciler {
	return &Reconciler{Client: c, APIReader: env.Client, Recorder: events.NewFakeRecorder(1000), WatchFilter: byHand, Now: time.Now}
}

func handSet(t *testing.T, replicas int32) (*infrav1.CAPTMachineSet, ctrl.Request) {
	t.Helper()
	set := newSet(t, replicas, func(s *infrav1.CAPTMachineSet) { s.Labels[clusterv1.WatchLabel] = byHand })
	return set, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}
}

func TestSet_makesNoMoreThanAskedOnAStaleCache(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 3)
	cache := &lagging{Client: env.Client}

	for range 4 {
		// Each time another manager that remembers nothing, with a cache that has
		// seen nothing.
		frame := handReconciler(cache).frame()
		for range 3 {
			_, err := frame.Reconcile(t.Context(), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(list(t, set.Namespace))).To(BeNumerically("<=", 3))
		}
	}

	g.Expect(list(t, set.Namespace)).To(HaveLen(3))
	reread(t, set)
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(3)), "the status tells what is, not what the cache shows")
}

func TestSet_deletesNoMoreThanAskedOnAStaleCache(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 4)
	cache := &lagging{Client: env.Client}
	frame := handReconciler(cache).frame()
	for range 2 {
		_, err := frame.Reconcile(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	}
	var all infrav1.CAPTMachineList
	g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(set.Namespace))).To(Succeed())
	cache.shown = all.Items
	g.Expect(cache.shown).To(HaveLen(4))

	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(2)) })
	for range 5 {
		_, err := frame.Reconcile(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(list(t, set.Namespace))).To(BeNumerically(">=", 2))
	}

	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
}

func TestSet_doesNothingOnAnOldVersionOfItself(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 2)
	frame := handReconciler(&lagging{Client: env.Client}).frame()
	for range 2 {
		_, err := frame.Reconcile(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	}
	reread(t, set)
	old := set.DeepCopy()
	old.Spec.Replicas = new(int32(5))
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(1)) })

	// A cache that still shows that five were wanted.
	_, err := handReconciler(&lagging{Client: env.Client, set: old}).frame().Reconcile(t.Context(), request)

	g.Expect(err).NotTo(HaveOccurred(), "a conflict is looked at again")
	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
}

func TestSet_adoptsNothingForOneThatIsBeingDeleted(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 1)
	frame := handReconciler(&lagging{Client: env.Client}).frame()
	_, err := frame.Reconcile(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	reread(t, set)
	old := set.DeepCopy()
	orphan := create(t, machineIn(set.Namespace, "orphan", map[string]string{"pool": "workers"}))
	g.Expect(env.Client.Delete(t.Context(), set)).To(Succeed())

	// A cache that shows neither the deletion nor the set's own machine.
	cache := &lagging{Client: env.Client, set: old, shown: []infrav1.CAPTMachine{*orphan}}
	_, err = handReconciler(cache).frame().Reconcile(t.Context(), request)

	g.Expect(err).NotTo(HaveOccurred(), "a conflict is looked at again")
	reread(t, orphan)
	g.Expect(orphan.OwnerReferences).To(BeEmpty())
}

func TestSet_adoptsNothingForAnotherOfItsName(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 1)
	old := set.DeepCopy()
	old.Finalizers = []string{infrav1.CAPTMachineSetFinalizer}
	g.Expect(env.Client.Delete(t.Context(), set)).To(Succeed())
	create(t, setIn(set.Namespace, 1, func(s *infrav1.CAPTMachineSet) { s.Labels[clusterv1.WatchLabel] = byHand }))
	orphan := create(t, machineIn(set.Namespace, "orphan", map[string]string{"pool": "workers"}))

	// A cache that still shows the first one.
	_, err := handReconciler(&lagging{Client: env.Client, set: old, shown: []infrav1.CAPTMachine{*orphan}}).frame().Reconcile(t.Context(), request)

	g.Expect(err).NotTo(HaveOccurred(), "a conflict is looked at again")
	reread(t, orphan)
	g.Expect(orphan.OwnerReferences).To(BeEmpty())
}

func TestSet_sparesAMachineThatBecomesReady(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 2)
	cache := &lagging{Client: env.Client}
	frame := handReconciler(cache).frame()
	for range 2 {
		_, err := frame.Reconcile(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	}
	update(t, set, func(s *infrav1.CAPTMachineSet) { s.Spec.Replicas = new(int32(1)) })
	var chosen string
	cache.beforeDelete = func(obj client.Object) {
		chosen = obj.GetName()
		m := &infrav1.CAPTMachine{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: chosen}}
		setReady(t, m, metav1.ConditionTrue)
		cache.beforeDelete = nil
	}

	_, err := frame.Reconcile(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred(), "a conflict is looked at again")
	g.Expect(list(t, set.Namespace)).To(HaveLen(2))
	_, err = frame.Reconcile(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(list(t, set.Namespace)).To(ConsistOf(HaveField("Name", chosen)), "the other one goes, which is not ready")
}

func TestSet_stopsMakingMachinesAtAFailure(t *testing.T) {
	g := NewWithT(t)
	set, request := handSet(t, 100)
	cache := &lagging{Client: env.Client, creates: &atomic.Int32{}, allowed: 5}
	frame := handReconciler(cache).frame()

	_, err := frame.Reconcile(t.Context(), request)

	g.Expect(err).To(MatchError(ContainSubstring("quota exceeded")))
	g.Expect(cache.creates.Load()).To(BeEquivalentTo(1+2+4), "the batch with the failure is the last one")
	g.Expect(list(t, set.Namespace)).To(HaveLen(5))
	reread(t, set)
	g.Expect(set.Status.Replicas).To(HaveValue(BeEquivalentTo(5)))
	g.Expect(set.Status.Conditions).To(ContainElement(And(
		HaveField("Type", infrav1.ReplicasInSyncCondition), HaveField("Status", metav1.ConditionUnknown), HaveField("Message", ContainSubstring("quota exceeded")))))
}

package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// endings are the ways in which a list of steps can end.
func endings() map[string][]Step[scope] {
	return map[string][]Step[scope]{
		"passed":  {step(networkReady, ends(nil))},
		"waiting": {step(networkReady, ends(fault.Wait("InProgress", "3 of 9")))},
		"clocked": {step(networkReady, ends(fault.WaitFor(time.Hour, "InProgress", "3 of 9")))},
		"stalled": {step(networkReady, ends(fault.Stall("RunFailed", "denied")))},
		"failed":  {step(networkReady, ends(errBoom))},
	}
}

func TestReconcile_runsTheSteps(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(labelled), cluster(false))
	b := newBench(w, step(networkReady, ends(nil)), step("", ends(nil)), step(endpointReady, ends(nil)))

	result, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.IsZero()).To(BeTrue())
	g.Expect(b.last.ran).To(Equal([]string{networkReady, "", endpointReady}))
	g.Expect(b.last.cluster.Name).To(Equal("c"))

	obj := w.get()
	g.Expect(obj.Status.ObservedGeneration).To(BeEquivalentTo(3))
	g.Expect(obj.Status.Conditions).To(HaveLen(4))
	for _, ready := range []string{networkReady, endpointReady, clusterv1.ReadyCondition} {
		g.Expect(conditions.IsTrue(obj, ready)).To(BeTrue(), ready)
	}
	for _, c := range obj.Status.Conditions {
		g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3), c.Type)
		g.Expect(c.LastTransitionTime.IsZero()).To(BeFalse(), c.Type)
	}
}

func TestReconcile_objectThatDoesNotExist(t *testing.T) {
	g := NewWithT(t)
	result, err := newBench(newWorld(t)).reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.IsZero()).To(BeTrue())
}

func TestReconcile_objectThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	refused := errors.New("connection refused")
	w := newWorld(t, newThing())
	b := newBench(w, step(networkReady, ends(nil)))
	b.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
	})

	_, err := b.reconcile(t)

	g.Expect(err).To(MatchError(refused))
	g.Expect(b.last).To(BeNil())
}

func TestReconcile_writesOnceAndThenRests(t *testing.T) {
	for name, steps := range endings() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, newThing(func(o *thing) { o.Status.ObservedGeneration = o.Generation }))
			b := newBench(w, steps...)

			_, _ = b.reconcile(t)
			g.Expect(w.writes).To(Equal([]string{"status"}))

			w.writes = nil
			version := w.get().ResourceVersion
			_, _ = b.reconcile(t)
			g.Expect(b.last.ran).NotTo(BeEmpty())
			g.Expect(w.writes).To(BeEmpty(), "nothing changed, so nothing is written")
			g.Expect(w.get().ResourceVersion).To(Equal(version))
		})
	}
}

func TestReconcile_persistsWhatStepsChanged(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	b := newBench(w)
	b.Steps = []Step[scope]{{Run: func(_ context.Context, s *scope) error {
		s.obj.Status.RunID = "run-1"
		s.obj.Spec.Endpoint = "host"
		return fault.Wait("InProgress", "3 of 9")
	}}}

	_, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.get().Status.RunID).To(Equal("run-1"))
	g.Expect(w.get().Spec.Endpoint).To(Equal("host"))
	g.Expect(stateOf(w.get(), clusterv1.ReadyCondition)).To(Equal(state{"False", "InProgress", "3 of 9"}))
}

func TestReconcile_scopeDecidesReady(t *testing.T) {
	tests := []struct {
		name string
		obj  *thing
		err  error
		want state
		fail bool
	}{
		{name: "wait", obj: newThing(), err: fault.Wait("NoSecret", "no Secret s"), want: state{"False", "NoSecret", "no Secret s"}},
		{name: "stall", obj: newThing(), err: fault.Stall("BadRef", "no such kind"), want: state{"False", "BadRef", "no such kind"}},
		{name: "failure", obj: newThing(), err: errBoom, want: state{"Unknown", "InternalError", "boom"}, fail: true},
		{name: "conflict", obj: newThing(), err: errConflict},
		{name: "deleting", obj: newThing(deleting), err: errBoom, want: state{"False", "Deleting", "boom"}, fail: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, tt.obj)
			b := newBench(w)
			b.Scope = func(context.Context, *thing, *clusterv1.Cluster) (*scope, error) { return nil, tt.err }

			_, err := b.reconcile(t)

			g.Expect(err != nil).To(Equal(tt.fail))
			g.Expect(stateOf(w.get(), clusterv1.ReadyCondition)).To(Equal(tt.want))
			g.Expect(w.get().Finalizers).To(Equal([]string{testFinalizer}))
		})
	}
}

func TestReconcile_pause(t *testing.T) {
	tests := []struct {
		name string
		objs []client.Object
	}{
		{name: "by Cluster", objs: []client.Object{newThing(labelled), cluster(true)}},
		{name: "by annotation", objs: []client.Object{newThing(annotatedPaused)}},
		{name: "of a deleting object", objs: []client.Object{newThing(annotatedPaused, deleting)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, tt.objs...)
			b := newBench(w, step(networkReady, ends(nil)))
			b.Delete = []Step[scope]{step(networkGone, ends(nil))}

			result, err := b.reconcile(t)

			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.IsZero()).To(BeTrue())
			g.Expect(b.last).To(BeNil(), "nothing runs while paused")
			g.Expect(w.writes).To(Equal([]string{"status"}))
			g.Expect(w.get().Finalizers).To(Equal([]string{testFinalizer}))
			g.Expect(w.get().Status.ObservedGeneration).To(BeZero())
			g.Expect(w.get().Status.Conditions).To(ConsistOf(
				And(HaveField("Type", clusterv1.PausedCondition), HaveField("Status", BeEquivalentTo("True"))),
			))

			w.writes = nil
			_, err = b.reconcile(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.writes).To(BeEmpty())
		})
	}
}

func TestReconcile_unpausesBeforeItActs(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(withCondition(condition{Type: clusterv1.PausedCondition, Status: "True", Reason: "Paused"})))
	b := newBench(w, step(networkReady, ends(nil)))

	result, err := b.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(soon))
	g.Expect(b.last).To(BeNil())
	g.Expect(stateOf(w.get(), clusterv1.PausedCondition)).To(Equal(state{"False", "NotPaused", ""}))

	_, err = b.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.last.ran).To(Equal([]string{networkReady}))
}

func TestReconcile_doesNothingWhileItsClusterIsUnknown(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(labelled))
	b := newBench(w, step(networkReady, ends(nil)))

	result, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.IsZero()).To(BeTrue())
	g.Expect(b.last).To(BeNil())
	g.Expect(stateOf(w.get(), clusterv1.ReadyCondition)).To(Equal(
		state{"False", WaitingForClusterReason, "Cluster default/c does not exist"}))
}

func TestReconcile_asksForTheClusterItWasTold(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	b := newBench(w, step(networkReady, ends(nil)))
	b.Cluster = func(context.Context, *thing) (*clusterv1.Cluster, error) { return cluster(true), nil }

	_, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conditions.IsTrue(w.get(), clusterv1.PausedCondition)).To(BeTrue())
}

func TestReconcile_panicsAreNotSwallowed(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	b := newBench(w, step(networkReady, func() error { panic("bug") }))

	g.Expect(func() { _, _ = b.reconcile(t) }).To(PanicWith("bug"))
	g.Expect(w.writes).To(BeEmpty(), "half a run is not written")
}

func TestReconcile_addsTheFinalizerFirst(t *testing.T) {
	t.Run("and goes on", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing(func(o *thing) { o.Finalizers = []string{otherFinalizer} }))
		b := newBench(w, step(networkReady, func() error {
			g.Expect(w.get().Finalizers).To(ConsistOf(otherFinalizer, testFinalizer))
			g.Expect(w.writes).To(Equal([]string{"object"}))
			return nil
		}))

		_, err := b.reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b.last.ran).To(Equal([]string{networkReady}))
		g.Expect(w.get().Finalizers).To(ConsistOf(otherFinalizer, testFinalizer))
	})

	t.Run("or does nothing", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing(withoutFinalizer))
		w.failPatch = errBoom
		b := newBench(w, step(networkReady, ends(nil)))

		_, err := b.reconcile(t)

		g.Expect(err).To(MatchError(errBoom))
		g.Expect(b.last).To(BeNil())
	})

	t.Run("and waits quietly when somebody was faster", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing(withoutFinalizer))
		w.beforePatch = func(ctx context.Context, c client.WithWatch) {
			other := w.get()
			other.Finalizers = []string{otherFinalizer}
			g.Expect(c.Update(ctx, other)).To(Succeed())
		}
		b := newBench(w, step(networkReady, ends(nil)))

		result, err := b.reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(soon))
		g.Expect(b.last).To(BeNil())
	})

	t.Run("unless the kind has none", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing(withoutFinalizer))
		b := newBench(w, step(networkReady, ends(nil)))
		b.Finalizer = ""

		_, err := b.reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b.last.ran).To(Equal([]string{networkReady}))
		g.Expect(w.get().Finalizers).To(BeEmpty())
	})
}

func TestReconcile_deletion(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		gone  bool
		fail  bool
		want  state
		ready state
	}{
		{name: "passed", err: nil, gone: true},
		{
			name: "waiting", err: fault.Wait("Draining", "2 nodes left"),
			want: state{"False", "Draining", "2 nodes left"}, ready: state{"False", "Deleting", "NetworkGone: 2 nodes left"},
		},
		{
			name: "stalled", err: fault.Stall("RunFailed", "denied"),
			want: state{"False", "RunFailed", "denied"}, ready: state{"False", "Deleting", "NetworkGone: denied"},
		},
		{
			name: "failed", err: errBoom, fail: true,
			want: state{"Unknown", "InternalError", "boom"}, ready: state{"False", "Deleting", "NetworkGone: boom"},
		},
		{name: "conflicted", err: errConflict, ready: state{"False", "Deleting", "NetworkGone: Not reported yet"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, newThing(deleting))
			b := newBench(w, step(networkReady, ends(nil)))
			b.Delete = []Step[scope]{step(endpointReady, ends(nil)), step(networkGone, ends(tt.err))}

			_, err := b.reconcile(t)

			g.Expect(err != nil).To(Equal(tt.fail))
			g.Expect(b.last.ran).To(Equal([]string{endpointReady, networkGone}), "the delete list, and it alone")
			obj := &thing{}
			err = w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj)
			if tt.gone {
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(obj.Finalizers).To(Equal([]string{testFinalizer}))
			g.Expect(stateOf(obj, networkGone)).To(Equal(tt.want))
			g.Expect(stateOf(obj, clusterv1.ReadyCondition)).To(Equal(tt.ready))
		})
	}
}

func TestReconcile_deletionLeavesTheFinalizersOfOthers(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(deleting, func(o *thing) { o.Finalizers = []string{otherFinalizer, testFinalizer} }))
	b := newBench(w)
	b.Delete = []Step[scope]{step(networkGone, ends(nil))}

	_, err := b.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.get().Finalizers).To(Equal([]string{otherFinalizer}))

	w.writes = nil
	_, err = b.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.last).To(BeNil(), "what has been taken back is not taken back twice")
	g.Expect(w.writes).To(BeEmpty(), "nor does a deleting object get the finalizer again")
}

func TestReconcile_deletionGoesOnWithoutItsCluster(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(deleting, labelled))
	b := newBench(w)
	b.Delete = []Step[scope]{step(networkGone, ends(nil))}

	_, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.last.ran).To(Equal([]string{networkGone}))
}

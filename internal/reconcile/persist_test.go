package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestIsConflict(t *testing.T) {
	agg := func(errs ...error) error { return fmt.Errorf("patching: %w", utilerrors.NewAggregate(errs)) }
	deadline, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-deadline.Done()

	tests := []struct {
		name string
		err  error
		want bool
	}{
		{name: "a conflict", err: fmt.Errorf("x: %w", errConflict), want: true},
		{name: "conflicts in an aggregate", err: agg(errConflict, errConflict), want: true},
		{name: "a conflict among others", err: agg(errConflict, errBoom)},
		{name: "another error", err: errBoom},
		{name: "a timeout", err: agg(deadline.Err())},
		{name: "a cancelled run", err: agg(context.Canceled)},
		{name: "gone", err: agg(errNotFound)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(isConflict(tt.err)).To(Equal(tt.want))
		})
	}
}

func TestEnsureFinalizer_refusesToDropThoseOfOthers(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(withoutFinalizer))
	stale := w.get()
	other := w.get()
	other.Finalizers = []string{otherFinalizer}
	g.Expect(w.Update(t.Context(), other)).To(Succeed())

	err := ensureFinalizer(t.Context(), w, stale, testFinalizer)

	g.Expect(isConflict(err)).To(BeTrue())
	g.Expect(w.get().Finalizers).To(Equal([]string{otherFinalizer}))
}

func TestReconcile_lostStatusWrites(t *testing.T) {
	lost := errors.New("etcdserver: request timed out")
	for name, steps := range endings() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, newThing())
			b := newBench(w, steps...)
			var told int
			b.OnTransition = func(context.Context, *scope, *thing, condition, condition) { told++ }

			w.failStatus = lost
			_, err := b.reconcile(t)
			g.Expect(err).To(MatchError(ContainSubstring(lost.Error())))
			g.Expect(w.get().Status.Conditions).To(BeEmpty())
			g.Expect(told).To(BeZero(), "nothing happened that anybody could read")

			w.failStatus = nil
			_, _ = b.reconcile(t)
			g.Expect(stateOf(w.get(), networkReady)).NotTo(Equal(state{}))
			g.Expect(told).To(Equal(3), "the step, Ready and Paused")
		})
	}
}

func TestReconcile_conflictingStatusWrites(t *testing.T) {
	t.Run("are retried quietly when they go on", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing())
		w.failStatus = errConflict

		result, err := newBench(w, step(networkReady, ends(nil))).reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(soon))
	})

	t.Run("do not undo what others wrote meanwhile", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t, newThing())
		first := true
		b := newBench(w, step(networkReady, func() error {
			if !first {
				return nil
			}
			first = false
			other := w.get()
			other.Labels = map[string]string{"theirs": "kept"}
			if err := w.Update(t.Context(), other); err != nil {
				return err
			}
			other.Status.Conditions = []condition{
				{Type: "Theirs", Status: "True", Reason: "Kept"},
				{Type: networkReady, Status: "False", Reason: "Usurped"},
			}
			return w.Status().Update(t.Context(), other)
		}))

		result, err := b.reconcile(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(soon), "what was decided on an old version is not written")
		g.Expect(stateOf(w.get(), networkReady).reason).To(Equal("Usurped"))

		_, err = b.reconcile(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.get().Labels).To(HaveKeyWithValue("theirs", "kept"))
		g.Expect(stateOf(w.get(), "Theirs")).To(Equal(state{"True", "Kept", ""}))
		g.Expect(stateOf(w.get(), networkReady)).To(Equal(state{"True", "Ready", ""}), "the next look decides on what is there")
	})
}

// strip makes the object vanish, as somebody who removes its finalizers does.
func strip(w *world) func() error {
	return func() error {
		obj := w.get()
		obj.Finalizers = nil
		if err := w.Update(w.t.Context(), obj); err != nil {
			return err
		}
		return client.IgnoreNotFound(w.Delete(w.t.Context(), obj))
	}
}

func TestReconcile_goneWhileItWasBeingDeleted(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(deleting))
	b := newBench(w)
	b.Delete = []Step[scope]{step(networkGone, strip(w))}
	b.OnTransition = func(context.Context, *scope, *thing, condition, condition) {
		t.Error("a transition of an object that is gone was told")
	}

	result, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.IsZero()).To(BeTrue())
}

func TestReconcile_goneWhileNobodyKnewOfADeletion(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	b := newBench(w, step(networkReady, strip(w)))

	_, err := b.reconcile(t)
	g.Expect(err).To(HaveOccurred(), "the write was lost; the next run finds out why")

	_, err = b.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestReconcile_goneBeforeItsFinalizerWasAdded(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing(withoutFinalizer))
	w.failPatch = errNotFound
	b := newBench(w, step(networkReady, ends(nil)))

	result, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.IsZero()).To(BeTrue())
	g.Expect(b.last).To(BeNil())
}

func TestReconcile_waitsForACacheThatIsBehind(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	b := newBench(w, step(networkReady, ends(nil)))
	key := client.ObjectKeyFromObject(w.get())
	b.latest.Store(key, "99999999")

	result, err := b.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(cacheLag))
	g.Expect(b.last).To(BeNil(), "nothing is decided on what is known to be old")
}

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
		{name: "a canceled run", err: agg(context.Canceled)},
		{name: "not found", err: agg(errNotFound)},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(isConflict(tt.err)).To(Equal(tt.want), tt.name)
	}
}

func TestEnsureFinalizer_keepsOtherFinalizers(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(withoutFinalizer))
	stale := server.get()
	other := server.get()
	other.Finalizers = []string{otherFinalizer}
	g.Expect(server.Update(t.Context(), other)).To(Succeed())

	err := ensureFinalizer(t.Context(), server, stale, testFinalizer)

	g.Expect(isConflict(err)).To(BeTrue())
	g.Expect(server.get().Finalizers).To(Equal([]string{otherFinalizer}))
}

func TestReconcile_retriesFailedStatusWrites(t *testing.T) {
	timeout := errors.New("etcdserver: request timed out")
	for name, steps := range endings() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := newAPIServer(t, newThing())
			frame := newTestFrame(server, steps...)
			var calls int
			frame.OnTransition = func(context.Context, *scope, *thing, condition, condition) { calls++ }

			server.failStatus = timeout
			g.Expect(frame.reconcile(t)).Error().To(MatchError(ContainSubstring(timeout.Error())))
			g.Expect(server.get().Status.Conditions).To(BeEmpty())
			g.Expect(calls).To(BeZero(), "nothing was written")

			server.failStatus = nil
			_, _ = frame.reconcile(t)
			g.Expect(stateOf(server.get(), networkReady)).NotTo(Equal(state{}))
			g.Expect(calls).To(Equal(3), "the step, Ready and Paused")
		})
	}
}

func TestReconcile_conflictingStatusWrites(t *testing.T) {
	t.Run("are requeued", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing())
		server.failStatus = errConflict

		result, err := newTestFrame(server, step(networkReady, returns(nil))).reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(retryDelay))
	})

	t.Run("do not overwrite other clients", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing())
		first := true
		frame := newTestFrame(server, step(networkReady, func() error {
			if !first {
				return nil
			}
			first = false
			other := server.get()
			other.Labels = map[string]string{"theirs": "kept"}
			if err := server.Update(t.Context(), other); err != nil {
				return err
			}
			other.Status.Conditions = []condition{
				{Type: "Theirs", Status: "True", Reason: "Kept"},
				{Type: networkReady, Status: "False", Reason: "Usurped"},
			}
			return server.Status().Update(t.Context(), other)
		}))

		result, err := frame.reconcile(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(retryDelay), "a decision on an old version is not written")
		g.Expect(stateOf(server.get(), networkReady).reason).To(Equal("Usurped"))

		g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
		g.Expect(server.get().Labels).To(HaveKeyWithValue("theirs", "kept"))
		g.Expect(stateOf(server.get(), "Theirs")).To(Equal(state{"True", "Kept", ""}))
		g.Expect(stateOf(server.get(), networkReady)).To(Equal(state{"True", "Ready", ""}), "the next run observes the current version")
	})
}

// strip returns a step function that removes the finalizers and deletes the
// object.
func strip(server *apiServer) func() error {
	return func() error {
		obj := server.get()
		obj.Finalizers = nil
		if err := server.Update(server.t.Context(), obj); err != nil {
			return err
		}
		return client.IgnoreNotFound(server.Delete(server.t.Context(), obj))
	}
}

func TestReconcile_ignoresAnObjectThatVanishedWhileDeleting(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(deleting))
	frame := newTestFrame(server)
	frame.Delete = []Step[scope]{step(networkGone, strip(server))}
	frame.OnTransition = func(context.Context, *scope, *thing, condition, condition) {
		t.Error("OnTransition was called for an object that does not exist")
	}

	g.Expect(frame.reconcile(t)).To(BeZero())
}

func TestReconcile_failsIfAnObjectVanishedWithoutDeletion(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server, step(networkReady, strip(server)))

	g.Expect(frame.reconcile(t)).Error().To(HaveOccurred(), "the write failed")

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
}

func TestReconcile_ignoresAnObjectThatVanishedBeforeItsFinalizer(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(withoutFinalizer))
	server.failPatch = errNotFound
	frame := newTestFrame(server, step(networkReady, returns(nil)))

	g.Expect(frame.reconcile(t)).To(BeZero())
	g.Expect(frame.last).To(BeNil())
}

func TestReconcile_requeuesWhileTheCacheIsStale(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server, step(networkReady, returns(nil)))
	key := client.ObjectKeyFromObject(server.get())
	frame.latest.Store(key, "99999999")

	result, err := frame.reconcile(t)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(cacheLag))
	g.Expect(frame.last).To(BeNil(), "no step runs on a stale object")
}

// A step may write the object itself, for example to reserve a number.
func TestChanges_ignoresTheVersionOfTheObject(t *testing.T) {
	g := NewWithT(t)
	from := newThing()
	from.ResourceVersion, from.Generation = "1", 1
	to := from.DeepCopyObject().(*thing)
	to.ResourceVersion, to.Generation = "2", 2

	status, rest, err := changes(from, to)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(BeNil())
	g.Expect(rest).To(BeNil())

	to.Annotations = map[string]string{"a": "b"}
	_, rest, err = changes(from, to)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rest).To(Equal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}))
}

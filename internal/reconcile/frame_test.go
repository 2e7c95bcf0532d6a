package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// endings returns step lists for each way in which a run can end.
func endings() map[string][]Step[scope] {
	return map[string][]Step[scope]{
		"passed":   {step(networkReady, returns(nil))},
		"waiting":  {step(networkReady, returns(fault.Wait("InProgress", "3 of 9")))},
		"requeued": {step(networkReady, returns(fault.WaitFor(time.Hour, "InProgress", "3 of 9")))},
		"stalled":  {step(networkReady, returns(fault.Stall("RunFailed", "denied")))},
		"failed":   {step(networkReady, returns(errBoom))},
	}
}

func TestReconcile_runsTheSteps(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(labelled), cluster(false))
	frame := newTestFrame(server, step(networkReady, returns(nil)), step("", returns(nil)), step(endpointReady, returns(nil)))

	g.Expect(frame.reconcile(t)).To(BeZero())
	g.Expect(frame.last.ran).To(Equal([]string{networkReady, "", endpointReady}))
	g.Expect(frame.last.cluster.Name).To(Equal("c"))

	obj := server.get()
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

// Flux and other tools that wait for objects compute this status.
func TestReconcile_isUnderstoodByTools(t *testing.T) {
	for name, want := range map[string]status.Status{
		"passed": status.CurrentStatus, "waiting": status.InProgressStatus, "requeued": status.InProgressStatus,
		"stalled": status.FailedStatus, "failed": status.InProgressStatus,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := newAPIServer(t, newThing())
			computed := func() status.Status {
				object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(server.get())
				g.Expect(err).NotTo(HaveOccurred())
				result, err := status.Compute(&unstructured.Unstructured{Object: object})
				g.Expect(err).NotTo(HaveOccurred())
				return result.Status
			}

			_, _ = newTestFrame(server, endings()[name]...).reconcile(t)
			g.Expect(computed()).To(Equal(want))

			_, _ = newTestFrame(server, endings()["passed"]...).reconcile(t)
			g.Expect(computed()).To(Equal(status.CurrentStatus), "nothing of it is left")
		})
	}
}

func TestReconcile_ignoresAnObjectThatDoesNotExist(t *testing.T) {
	g := NewWithT(t)
	var gone []string
	frame := newTestFrame(newAPIServer(t))
	frame.Gone = func(key client.ObjectKey) { gone = append(gone, key.String()) }
	g.Expect(frame.reconcile(t)).To(BeZero())
	g.Expect(gone).To(Equal([]string{"default/a"}), "what is in memory is released")
}

func TestReconcile_failsIfTheObjectCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	refused := errors.New("connection refused")
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server, step(networkReady, returns(nil)))
	frame.Client = interceptor.NewClient(server.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
	})

	g.Expect(frame.reconcile(t)).Error().To(MatchError(refused))
	g.Expect(frame.last).To(BeNil())
}

func TestReconcile_writesOnlyChanges(t *testing.T) {
	for name, steps := range endings() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := newAPIServer(t, newThing(func(o *thing) { o.Status.ObservedGeneration = o.Generation }))
			frame := newTestFrame(server, steps...)

			_, _ = frame.reconcile(t)
			g.Expect(server.writes).To(Equal([]string{"status"}))

			server.writes = nil
			version := server.get().ResourceVersion
			_, _ = frame.reconcile(t)
			g.Expect(frame.last.ran).NotTo(BeEmpty())
			g.Expect(server.writes).To(BeEmpty(), "nothing changed")
			g.Expect(server.get().ResourceVersion).To(Equal(version))
		})
	}
}

func TestReconcile_persistsWhatStepsChanged(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server)
	frame.Steps = []Step[scope]{{Run: func(_ context.Context, s *scope) error {
		s.obj.Status.RunID = "run-1"
		s.obj.Spec.Endpoint = "host"
		return fault.Wait("InProgress", "3 of 9")
	}}}

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(server.get().Status.RunID).To(Equal("run-1"))
	g.Expect(server.get().Spec.Endpoint).To(Equal("host"))
	g.Expect(stateOf(server.get(), clusterv1.ReadyCondition)).To(Equal(state{"False", "InProgress", "3 of 9"}))
}

func TestReconcile_setsReadyFromAScopeError(t *testing.T) {
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
			server := newAPIServer(t, tt.obj)
			frame := newTestFrame(server)
			frame.Scope = func(context.Context, *thing, *clusterv1.Cluster) (*scope, error) { return nil, tt.err }

			_, err := frame.reconcile(t)

			g.Expect(err != nil).To(Equal(tt.fail))
			g.Expect(stateOf(server.get(), clusterv1.ReadyCondition)).To(Equal(tt.want))
			g.Expect(server.get().Finalizers).To(Equal([]string{testFinalizer}))
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
		{name: "after a move", objs: []client.Object{newThing(movedAway)}},
		{name: "of an object that is deleted after a move", objs: []client.Object{newThing(movedAway, deleting)}},
		{name: "of a deleting object", objs: []client.Object{newThing(annotatedPaused, deleting)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			server := newAPIServer(t, tt.objs...)
			frame := newTestFrame(server, step(networkReady, returns(nil)))
			frame.Delete = []Step[scope]{step(networkGone, returns(nil))}

			g.Expect(frame.reconcile(t)).To(BeZero())
			g.Expect(frame.last).To(BeNil(), "nothing runs while paused")
			g.Expect(server.writes).To(Equal([]string{"status"}))
			g.Expect(server.get().Finalizers).To(Equal([]string{testFinalizer}))
			g.Expect(server.get().Status.ObservedGeneration).To(BeZero())
			g.Expect(server.get().Status.Conditions).To(ConsistOf(
				And(HaveField("Type", clusterv1.PausedCondition), HaveField("Status", BeEquivalentTo("True"))),
			))

			server.writes = nil
			g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
			g.Expect(server.writes).To(BeEmpty())
		})
	}
}

func TestReconcile_callsPaused(t *testing.T) {
	for name, obj := range map[string]*thing{"paused": newThing(annotatedPaused), "paused and deleted": newThing(annotatedPaused, deleting)} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			frame := newTestFrame(newAPIServer(t, obj), step(networkReady, returns(nil)))
			failure := errors.New("refused")
			frame.Paused = func(context.Context, *thing) (time.Duration, error) { return time.Minute, failure }
			g.Expect(frame.reconcile(t)).Error().To(MatchError(failure))
			failure = nil
			result, err := frame.reconcile(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.RequeueAfter).To(Equal(time.Minute))
			g.Expect(frame.last).To(BeNil(), "no step runs")
		})
	}
}

func TestReconcile_writesThatItIsNotPausedBeforeItRunsSteps(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(withCondition(condition{Type: clusterv1.PausedCondition, Status: "True", Reason: "Paused"})))
	frame := newTestFrame(server, step(networkReady, returns(nil)))

	result, err := frame.reconcile(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(retryDelay))
	g.Expect(frame.last).To(BeNil())
	g.Expect(stateOf(server.get(), clusterv1.PausedCondition)).To(Equal(state{"False", "NotPaused", ""}))

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(frame.last.ran).To(Equal([]string{networkReady}))
}

func TestReconcile_waitsForItsCluster(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(labelled))
	frame := newTestFrame(server, step(networkReady, returns(nil)))

	g.Expect(frame.reconcile(t)).To(BeZero())
	g.Expect(frame.last).To(BeNil())
	g.Expect(stateOf(server.get(), clusterv1.ReadyCondition)).To(Equal(
		state{"False", WaitingForClusterReason, "Cluster default/c does not exist"}))
}

func TestReconcile_usesTheClusterFunction(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server, step(networkReady, returns(nil)))
	frame.Cluster = func(context.Context, *thing) (*clusterv1.Cluster, error) { return cluster(true), nil }

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(conditions.IsTrue(server.get(), clusterv1.PausedCondition)).To(BeTrue())
}

func TestReconcile_doesNotRecoverFromPanics(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	frame := newTestFrame(server, step(networkReady, func() error { panic("bug") }))

	g.Expect(func() { _, _ = frame.reconcile(t) }).To(PanicWith("bug"))
	g.Expect(server.writes).To(BeEmpty(), "an incomplete run is not written")
}

func TestReconcile_addsTheFinalizerFirst(t *testing.T) {
	t.Run("and runs the steps", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing(func(o *thing) { o.Finalizers = []string{otherFinalizer} }))
		frame := newTestFrame(server, step(networkReady, func() error {
			g.Expect(server.get().Finalizers).To(ConsistOf(otherFinalizer, testFinalizer))
			g.Expect(server.writes).To(Equal([]string{"object"}))
			return nil
		}))

		g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
		g.Expect(frame.last.ran).To(Equal([]string{networkReady}))
		g.Expect(server.get().Finalizers).To(ConsistOf(otherFinalizer, testFinalizer))
	})

	t.Run("and runs no step if that fails", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing(withoutFinalizer))
		server.failPatch = errBoom
		frame := newTestFrame(server, step(networkReady, returns(nil)))

		g.Expect(frame.reconcile(t)).Error().To(MatchError(errBoom))
		g.Expect(frame.last).To(BeNil())
	})

	t.Run("and requeues after a conflict", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing(withoutFinalizer))
		server.beforePatch = func(ctx context.Context, c client.WithWatch) {
			other := server.get()
			other.Finalizers = []string{otherFinalizer}
			g.Expect(c.Update(ctx, other)).To(Succeed())
		}
		frame := newTestFrame(server, step(networkReady, returns(nil)))

		result, err := frame.reconcile(t)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(retryDelay))
		g.Expect(frame.last).To(BeNil())
	})

	t.Run("unless the frame has none", func(t *testing.T) {
		g := NewWithT(t)
		server := newAPIServer(t, newThing(withoutFinalizer))
		frame := newTestFrame(server, step(networkReady, returns(nil)))
		frame.Finalizer = ""

		g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
		g.Expect(frame.last.ran).To(Equal([]string{networkReady}))
		g.Expect(server.get().Finalizers).To(BeEmpty())
	})
}

func TestReconcile_deletion(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		deleted bool
		fail    bool
		want    state
		ready   state
	}{
		{name: "passed", err: nil, deleted: true},
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
			server := newAPIServer(t, newThing(deleting))
			frame := newTestFrame(server, step(networkReady, returns(nil)))
			frame.Delete = []Step[scope]{step(endpointReady, returns(nil)), step(networkGone, returns(tt.err))}

			_, err := frame.reconcile(t)

			g.Expect(err != nil).To(Equal(tt.fail))
			g.Expect(frame.last.ran).To(Equal([]string{endpointReady, networkGone}), "only the Delete steps run")
			obj := &thing{}
			err = server.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj)
			if tt.deleted {
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

func TestReconcile_deletionKeepsOtherFinalizers(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(deleting, func(o *thing) { o.Finalizers = []string{otherFinalizer, testFinalizer} }))
	frame := newTestFrame(server)
	frame.Delete = []Step[scope]{step(networkGone, returns(nil))}

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(server.get().Finalizers).To(Equal([]string{otherFinalizer}))

	server.writes = nil
	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(frame.last).To(BeNil(), "the Delete steps do not run twice")
	g.Expect(server.writes).To(BeEmpty(), "the finalizer is not added again")
}

func TestReconcile_deletionDoesNotWaitForItsCluster(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing(deleting, labelled))
	frame := newTestFrame(server)
	frame.Delete = []Step[scope]{step(networkGone, returns(nil))}

	g.Expect(frame.reconcile(t)).Error().NotTo(HaveOccurred())
	g.Expect(frame.last.ran).To(Equal([]string{networkGone}))
}

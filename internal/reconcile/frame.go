// Package reconcile implements the reconcile loop that all controllers share:
// fetch, finalizer, pause, steps, persist. It sets the conditions, summarises
// them once and patches once. A controller defines only its steps.
package reconcile

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// cacheLag is the usual delay between a write and its watch event.
const cacheLag = 10 * time.Millisecond

// Object is an API object with metav1 conditions. If it also has a method
// SetObservedGeneration(int64), Frame sets the generation that the steps observe.
type Object interface {
	client.Object
	conditions.Setter
}

// Frame reconciles objects of the pointer type T by running steps on a scope S.
// The scope holds the data of one run. Fields must not change after the first
// Reconcile.
type Frame[T Object, S any] struct {
	Client client.Client

	// WatchFilter, if set, restricts the frame to objects with this value of the
	// label cluster.x-k8s.io/watch-filter.
	WatchFilter string

	// Finalizer is added to an object before the first step runs, and removed
	// after the last step of Delete passed. If it is empty, objects that are being
	// deleted are ignored.
	Finalizer string

	// Cluster returns the Cluster whose spec.paused pauses the object, or nil. It
	// defaults to OwnerCluster. The controller must watch the Cluster. An error
	// decides Ready as the error of a step decides its condition.
	Cluster func(ctx context.Context, obj T) (*clusterv1.Cluster, error)

	// Scope reads the data that the steps share. The Cluster may be nil. An error
	// decides Ready as the error of a step decides its condition.
	Scope func(ctx context.Context, obj T, cluster *clusterv1.Cluster) (*S, error)

	// Steps bring the object to its desired state.
	Steps []Step[S]

	// Delete removes what the steps created. It replaces Steps for an object that
	// is being deleted.
	Delete []Step[S]

	// EndingSteps replace Steps for an object for which Ending, if set, returns true:
	// one that exists, but whose Cluster is being deleted. The Cluster may be nil.
	EndingSteps []Step[S]
	Ending      func(obj T, cluster *clusterv1.Cluster) bool

	// Paused, if set, is called while the object is paused, also while it is being
	// deleted. It removes what must not exist for long, and returns when it has to
	// run again, or zero. It must not change the object.
	Paused func(ctx context.Context, obj T) (time.Duration, error)

	// Gone, if set, is called for an object that does not exist. The last steps may have
	// run with an object of the cache that had been deleted, and then have registered it
	// again in memory.
	Gone func(key client.ObjectKey)

	// Idle, if set, is called for an object that exists and for which no steps run: it is
	// paused, or another system manages it.
	Idle func(key client.ObjectKey)

	// Ended, if set, is called when the steps have ended, or did not run because the
	// object is paused, another system manages it, or an error came first; the scope is
	// nil then. It must not change
	// the object.
	Ended func(ctx context.Context, obj T, s *S)

	// OnTransition, if set, is called for each condition whose status or reason
	// changed, Ready and Paused included, after the change was written. The scope
	// is nil if the run ended before Scope returned one. The previous value of a
	// new condition has only its type.
	OnTransition func(ctx context.Context, s *S, obj T, previous, current metav1.Condition)

	// latest maps object keys to the resource version of the last write.
	latest sync.Map
}

// Reconcile runs the steps of one object, unless another system manages it.
// Waits and stalls are not errors. Errors are retried with exponential backoff.
func (f *Frame[T, S]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := newObject[T]()
	if err := f.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		f.latest.Delete(req.NamespacedName)
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("getting object: %w", err)
		}
		if f.Gone != nil {
			f.Gone(req.NamespacedName)
		}
		return ctrl.Result{}, nil
	}

	switch {
	case f.isStale(obj):
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	case f.isForeign(obj):
		f.idle(obj)
		if f.Ended != nil {
			f.Ended(ctx, obj, nil)
		}
		return ctrl.Result{}, nil
	case !obj.GetDeletionTimestamp().IsZero():
	case f.Finalizer != "":
		if err := ensureFinalizer(ctx, f.Client, obj, f.Finalizer); err != nil {
			return classify(client.IgnoreNotFound(err)).result(nil)
		}
	}

	before, ok := obj.DeepCopyObject().(T)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("copying object: %T copies to another type", obj)
	}

	s, o := f.run(ctx, obj)
	if f.Ended != nil {
		f.Ended(ctx, obj, s)
	}

	written, err := f.persist(ctx, before, obj)
	if written {
		f.announce(ctx, s, obj, before.GetConditions())
	}
	return o.result(err)
}

// isForeign reports whether another system manages an object, or nothing has to be
// removed for it any more.
func (f *Frame[T, S]) isForeign(obj T) bool {
	return externallyManaged(obj) ||
		f.WatchFilter != "" && obj.GetLabels()[clusterv1.WatchLabel] != f.WatchFilter ||
		!obj.GetDeletionTimestamp().IsZero() && !controllerutil.ContainsFinalizer(obj, f.Finalizer)
}

// run does everything between fetching and persisting. It changes the object
// only in memory.
func (f *Frame[T, S]) run(ctx context.Context, obj T) (*S, outcome) {
	cluster, err := f.cluster(ctx, obj)
	if err != nil {
		return nil, f.endEarly(obj, err)
	}

	switch paused, wasPaused := pause(obj, f.kind(obj), cluster); {
	case paused:
		f.idle(obj)
		return nil, f.whilePaused(ctx, obj)
	case wasPaused:
		// Paused must be False before steps run, so it is written first.
		return nil, outcome{class: passed, requeueAfter: retryDelay}
	}
	if o, ok := any(obj).(interface{ SetObservedGeneration(generation int64) }); ok {
		o.SetObservedGeneration(obj.GetGeneration())
	}

	s, err := f.Scope(ctx, obj, cluster)
	if err != nil {
		return nil, f.endEarly(obj, err)
	}

	deleting := !obj.GetDeletionTimestamp().IsZero()
	steps := f.Steps
	switch {
	case deleting:
		steps = f.Delete
	case f.Ending != nil && f.Ending(obj, cluster):
		steps = f.EndingSteps
	}
	o := runSteps(ctx, obj, steps, s)
	summarise(obj, summarisedTypes(steps), o)
	if deleting && o.class == passed {
		controllerutil.RemoveFinalizer(obj, f.Finalizer)
	}
	return s, o
}

func (f *Frame[T, S]) idle(obj T) {
	if f.Idle != nil {
		f.Idle(client.ObjectKeyFromObject(obj))
	}
}

func (f *Frame[T, S]) whilePaused(ctx context.Context, obj T) outcome {
	if f.Paused == nil {
		return outcome{class: passed}
	}
	after, err := f.Paused(ctx, obj)
	o := classify(err)
	o.requeueAfter = sooner(o.requeueAfter, after)
	return o
}

// endEarly writes Ready for a run that failed before its first step, and returns
// the outcome of the run.
func (f *Frame[T, S]) endEarly(obj T, err error) outcome {
	o := classify(err)
	if o.class != conflicted {
		summarise(obj, nil, o)
	}
	return o
}

func (f *Frame[T, S]) cluster(ctx context.Context, obj T) (*clusterv1.Cluster, error) {
	if f.Cluster != nil {
		return f.Cluster(ctx, obj)
	}
	return OwnerCluster(ctx, f.Client, obj)
}

func (f *Frame[T, S]) announce(ctx context.Context, s *S, obj T, before []metav1.Condition) {
	log := ctrl.LoggerFrom(ctx)
	for _, t := range transitions(before, obj.GetConditions()) {
		log.V(1).Info("Condition changed", "condition", t.current.Type,
			"status", t.current.Status, "reason", t.current.Reason, "message", t.current.Message)
		if f.OnTransition != nil {
			f.OnTransition(ctx, s, obj, t.previous, t.current)
		}
	}
}

func (f *Frame[T, S]) kind(obj T) string {
	gvk, err := apiutil.GVKForObject(obj, f.Client.Scheme())
	if err != nil {
		return "Object"
	}
	return gvk.Kind
}

func newObject[T Object]() T {
	obj, ok := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem()))
	if !ok {
		panic(fmt.Sprintf("reconcile: %s is not a pointer type", reflect.TypeFor[T]()))
	}
	return obj
}

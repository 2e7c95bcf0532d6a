// Package reconcile is the frame that every controller hangs its steps in:
// fetch, finalizer, pause, steps, persist. It sets the conditions, summarises
// them once and patches once; a controller only says what its steps are.
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

// cacheLag is how long a cache usually takes to see a write.
const cacheLag = 10 * time.Millisecond

// Object is a kind whose status.conditions are metav1 conditions. A kind that
// also has SetObservedGeneration(int64) gets the generation its steps saw.
type Object interface {
	client.Object
	conditions.Setter
}

// Frame reconciles objects of the pointer type T by running steps over a scope
// S, which holds what was read for one run. Its fields are set once, before
// the first Reconcile.
type Frame[T Object, S any] struct {
	Client client.Client

	// WatchFilter, if set, leaves alone every object whose label
	// cluster.x-k8s.io/watch-filter has another value.
	WatchFilter string

	// Finalizer is added before anything else happens to an object, and removed
	// when the Delete list ended. A kind without one is left alone once it is
	// being deleted.
	Finalizer string

	// Cluster finds the Cluster whose pausing pauses the object, or nil. It
	// defaults to OwnerCluster; the controller has to watch what it looks for.
	// Its error decides Ready, as that of a step decides its condition.
	Cluster func(ctx context.Context, obj T) (*clusterv1.Cluster, error)

	// Scope reads what the steps share. The Cluster may be nil. Its error
	// decides Ready, as that of a step decides its condition.
	Scope func(ctx context.Context, obj T, cluster *clusterv1.Cluster) (*S, error)

	// Steps bring the object to what it asks for.
	Steps []Step[S]

	// Delete takes back what the steps made.
	Delete []Step[S]

	// OnTransition, if set, is told of each condition whose status or reason
	// changed, Ready and Paused included, once the change has been written. The
	// scope is nil when the run did not come as far as making it. A condition
	// that is new was nothing but its type.
	OnTransition func(ctx context.Context, s *S, obj T, was, is metav1.Condition)

	// latest is the version of each object that was written last.
	latest sync.Map
}

// Reconcile runs the frame on one object, unless another system manages it. Waits and stalls are no errors; what
// it returns as an error is to be retried with a growing delay.
func (f *Frame[T, S]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := newObject[T]()
	if err := f.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		f.latest.Delete(req.NamespacedName)
		if err = client.IgnoreNotFound(err); err != nil {
			err = fmt.Errorf("getting object: %w", err)
		}
		return ctrl.Result{}, err
	}

	switch {
	case f.behind(obj):
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	case externallyManaged(obj):
		return ctrl.Result{}, nil
	case f.WatchFilter != "" && obj.GetLabels()[clusterv1.WatchLabel] != f.WatchFilter:
		return ctrl.Result{}, nil
	case !obj.GetDeletionTimestamp().IsZero():
		if !controllerutil.ContainsFinalizer(obj, f.Finalizer) {
			return ctrl.Result{}, nil
		}
	case f.Finalizer != "":
		if err := ensureFinalizer(ctx, f.Client, obj, f.Finalizer); err != nil {
			return judge(client.IgnoreNotFound(err)).result(nil)
		}
	}

	before, ok := obj.DeepCopyObject().(T)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("copying object: %T copies to another type", obj)
	}

	s, v := f.run(ctx, obj)

	written, err := f.persist(ctx, before, obj)
	if written {
		f.announce(ctx, s, obj, before.GetConditions())
	}
	return v.result(err)
}

// run does everything between fetching and persisting. It changes the object
// in memory only.
func (f *Frame[T, S]) run(ctx context.Context, obj T) (*S, verdict) {
	cluster, err := f.cluster(ctx, obj)
	if err != nil {
		return nil, f.unprepared(obj, err)
	}

	switch paused, was := pause(obj, f.kind(obj), cluster); {
	case paused:
		return nil, verdict{kind: passed}
	case was:
		// Nobody may read Paused while steps run, so it is written first.
		return nil, verdict{kind: passed, again: soon}
	}
	if o, ok := any(obj).(interface{ SetObservedGeneration(generation int64) }); ok {
		o.SetObservedGeneration(obj.GetGeneration())
	}

	s, err := f.Scope(ctx, obj, cluster)
	if err != nil {
		return nil, f.unprepared(obj, err)
	}

	deleting := !obj.GetDeletionTimestamp().IsZero()
	steps := f.Steps
	if deleting {
		steps = f.Delete
	}
	v := walk(ctx, obj, steps, s)
	summarise(obj, counted(steps), v)
	if deleting && v.kind == passed {
		controllerutil.RemoveFinalizer(obj, f.Finalizer)
	}
	return s, v
}

// unprepared is the verdict on a run that did not come to its first step.
func (f *Frame[T, S]) unprepared(obj T, err error) verdict {
	v := judge(err)
	if v.kind != conflicted {
		summarise(obj, nil, v)
	}
	return v
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
		log.V(1).Info("Condition changed", "condition", t.is.Type,
			"status", t.is.Status, "reason", t.is.Reason, "message", t.is.Message)
		if f.OnTransition != nil {
			f.OnTransition(ctx, s, obj, t.was, t.is)
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

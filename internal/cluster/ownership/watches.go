package ownership

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/appthrust/capt/internal/reconcile"
)

// NoController is the value of an index for objects without a controller.
const NoController = "none"

// Index indexes objects by the UID of their controller.
func Index(ctx context.Context, indexer client.FieldIndexer, obj client.Object, field string) error {
	err := indexer.IndexField(ctx, obj, field, func(obj client.Object) []string {
		if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
			return []string{string(controller.UID)}
		}
		return []string{NoController}
	})
	if err != nil {
		return fmt.Errorf("indexing %T by controller: %w", obj, err)
	}
	return nil
}

// Watches maps changes of other objects to the owners they concern.
type Watches[T client.Object] struct {
	Client client.Reader
	// Kind is the kind of the owners.
	Kind string
	// NewList returns an empty list of owners.
	NewList func() client.ObjectList
	// Spec returns the selector and the name of the Cluster of an owner.
	Spec func(owner T) (selector *metav1.LabelSelector, clusterName string)
}

// RequestsForDependent returns the owner that controls an object. For an object
// without a controller it returns the owners that may adopt it.
func (w *Watches[T]) RequestsForDependent(ctx context.Context, obj client.Object) []ctrl.Request {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		if controller.Kind != w.Kind {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: controller.Name}}}
	}
	return w.requests(ctx, obj.GetNamespace(), func(owner T) bool {
		spec, _ := w.Spec(owner)
		selector, err := metav1.LabelSelectorAsSelector(spec)
		return err == nil && selector.Matches(labels.Set(obj.GetLabels()))
	})
}

// RequestsForCluster returns the owners of a Cluster.
func (w *Watches[T]) RequestsForCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return w.requests(ctx, cluster.GetNamespace(), func(owner T) bool {
		_, name := w.Spec(owner)
		return name == cluster.GetName()
	})
}

func (w *Watches[T]) requests(ctx context.Context, namespace string, match func(T) bool) []ctrl.Request {
	return reconcile.Requests(ctx, w.Client, w.NewList(), match, client.InNamespace(namespace))
}

// ClusterOf returns the Cluster with the name that the spec of an owner gives.
// The owner may not have labels and owner references yet.
func ClusterOf(ctx context.Context, c client.Reader, owner client.Object, name string) (*clusterv1.Cluster, error) {
	return reconcile.OwnerCluster(ctx, c, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), DeletionTimestamp: owner.GetDeletionTimestamp(),
		Labels: map[string]string{clusterv1.ClusterNameLabel: name},
	}})
}

// ClusterCreatedOrPaused passes Clusters that are created, that owners may wait
// for, and Clusters that are paused or resumed.
func ClusterCreatedOrPaused() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, ok := e.ObjectOld.(*clusterv1.Cluster)
			current, same := e.ObjectNew.(*clusterv1.Cluster)
			return ok && same && ptr.Deref(previous.Spec.Paused, false) != ptr.Deref(current.Spec.Paused, false)
		},
	}
}

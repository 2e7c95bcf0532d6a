package captmachineset

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

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const (
	// ownerIndex finds machines by the UID of their controller.
	ownerIndex = "capt.machineset.controller"
	// orphan is the index's value for a machine without a controller.
	orphan = "none"
)

func (r *Reconciler) index(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.CAPTMachine{}, ownerIndex, func(obj client.Object) []string {
		if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
			return []string{string(controller.UID)}
		}
		return []string{orphan}
	})
	if err != nil {
		return fmt.Errorf("indexing machines by their controller: %w", err)
	}
	return nil
}

// ofMachine finds the set of a machine, or those that may adopt it.
func (r *Reconciler) ofMachine(ctx context.Context, m client.Object) []ctrl.Request {
	if controller := metav1.GetControllerOfNoCopy(m); controller != nil {
		if controller.Kind != "CAPTMachineSet" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: controller.Name}}}
	}
	return r.list(ctx, m.GetNamespace(), func(set *infrav1.CAPTMachineSet) bool {
		selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(m.GetLabels()))
	})
}

// ofCluster finds the sets of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return r.list(ctx, cluster.GetNamespace(), func(set *infrav1.CAPTMachineSet) bool {
		return set.Spec.ClusterName == cluster.GetName()
	})
}

func (r *Reconciler) list(ctx context.Context, namespace string, match func(*infrav1.CAPTMachineSet) bool) []ctrl.Request {
	var sets infrav1.CAPTMachineSetList
	if err := r.Client.List(ctx, &sets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing sets")
		return nil
	}
	var requests []ctrl.Request
	for i := range sets.Items {
		if match(&sets.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
		}
	}
	return requests
}

// appearsOrPauses lets through a Cluster that sets may wait for, and one whose
// pausing changed.
func appearsOrPauses() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Cluster)
			after, same := e.ObjectNew.(*clusterv1.Cluster)
			return ok && same && ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
		},
	}
}

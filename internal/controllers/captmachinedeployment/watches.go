package captmachinedeployment

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
	// setIndex finds sets by the UID of their controller.
	setIndex = "capt.machinedeployment.controller"
	// machineIndex finds machines by the UID of their controller.
	machineIndex = "capt.machinedeployment.set"
	// orphan is the index's value for an object without a controller.
	orphan = "none"
)

func (r *Reconciler) index(ctx context.Context, mgr ctrl.Manager) error {
	byController := func(obj client.Object) []string {
		if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
			return []string{string(controller.UID)}
		}
		return []string{orphan}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.CAPTMachineSet{}, setIndex, byController); err != nil {
		return fmt.Errorf("indexing sets by their controller: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.CAPTMachine{}, machineIndex, byController); err != nil {
		return fmt.Errorf("indexing machines by their controller: %w", err)
	}
	return nil
}

// ofSet finds the deployment of a set, or those that may adopt it.
func (r *Reconciler) ofSet(ctx context.Context, set client.Object) []ctrl.Request {
	if controller := metav1.GetControllerOfNoCopy(set); controller != nil {
		if controller.Kind != "CAPTMachineDeployment" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: set.GetNamespace(), Name: controller.Name}}}
	}
	return r.list(ctx, set.GetNamespace(), func(d *infrav1.CAPTMachineDeployment) bool {
		selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(set.GetLabels()))
	})
}

// ofCluster finds the deployments of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return r.list(ctx, cluster.GetNamespace(), func(d *infrav1.CAPTMachineDeployment) bool {
		return d.Spec.ClusterName == cluster.GetName()
	})
}

func (r *Reconciler) list(ctx context.Context, namespace string, match func(*infrav1.CAPTMachineDeployment) bool) []ctrl.Request {
	var deployments infrav1.CAPTMachineDeploymentList
	if err := r.Client.List(ctx, &deployments, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing deployments")
		return nil
	}
	var requests []ctrl.Request
	for i := range deployments.Items {
		if match(&deployments.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&deployments.Items[i])})
		}
	}
	return requests
}

// appearsOrPauses lets through a Cluster that deployments may wait for, and one
// whose pausing changed.
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

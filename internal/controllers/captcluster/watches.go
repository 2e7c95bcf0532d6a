package captcluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// requestsForTemplate returns the CAPTClusters whose infrastructure a template creates.
func (r *Reconciler) requestsForTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(c *infrav1.CAPTCluster) bool {
		ref := c.Spec.TemplateRef()
		return ref != nil && ref.Key(c.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

// requestsForControlPlane returns the infrastructure of a control plane's cluster.
func (r *Reconciler) requestsForControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return r.requests(ctx, func(*infrav1.CAPTCluster) bool { return true },
		client.InNamespace(obj.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
}

func (r *Reconciler) requests(ctx context.Context, match func(*infrav1.CAPTCluster) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTClusterList{}, match, options...)
}

// createdOrDeleted selects the events of created and deleted objects.
func createdOrDeleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

package captcontrolplane

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// requestsForCluster returns the control plane of a Cluster.
func requestsForCluster(_ context.Context, obj client.Object) []ctrl.Request {
	cluster, ok := obj.(*clusterv1.Cluster)
	if !ok {
		return nil
	}
	ref := cluster.Spec.ControlPlaneRef
	if !controlplanev1.IsCAPTControlPlane(ref) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}}}
}

// requestsForMember returns the control plane of the cluster that an object belongs
// to.
func (r *Reconciler) requestsForMember(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return r.requests(ctx, func(*controlplanev1.CAPTControlPlane) bool { return true },
		client.InNamespace(obj.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
}

// requestsForDeleting returns the control plane of an object that is being deleted.
func (r *Reconciler) requestsForDeleting(ctx context.Context, obj client.Object) []ctrl.Request {
	if obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return r.requestsForMember(ctx, obj)
}

// requestsForAddon returns the control planes that can wait for an add-on: for its
// removal, or for its support of a newer version.
func (r *Reconciler) requestsForAddon(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(c *controlplanev1.CAPTControlPlane) bool {
		return !c.DeletionTimestamp.IsZero() || conditions.IsFalse(c, controlplanev1.WorkspaceReadyCondition)
	}, client.InNamespace(obj.GetNamespace()))
}

// requestsForTemplate returns the control planes that a template creates.
func (r *Reconciler) requestsForTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(c *controlplanev1.CAPTControlPlane) bool {
		return c.Spec.WorkspaceTemplateRef.Key(c.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

func (r *Reconciler) requests(ctx context.Context, match func(*controlplanev1.CAPTControlPlane) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &controlplanev1.CAPTControlPlaneList{}, match, options...)
}

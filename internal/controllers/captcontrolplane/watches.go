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

// ofCluster finds the control plane of a Cluster.
func ofCluster(_ context.Context, obj client.Object) []ctrl.Request {
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

// ofMember finds the control plane of the cluster that an object belongs to.
func (r *Reconciler) ofMember(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return r.requests(ctx, func(*controlplanev1.CAPTControlPlane) bool { return true },
		client.InNamespace(obj.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
}

// ofLeaving finds the control plane that waits for an object to go.
func (r *Reconciler) ofLeaving(ctx context.Context, obj client.Object) []ctrl.Request {
	if obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return r.ofMember(ctx, obj)
}

// ofAddon finds the control planes that wait for an add-on: to go with them, or
// to fit a newer version.
func (r *Reconciler) ofAddon(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(c *controlplanev1.CAPTControlPlane) bool {
		return !c.DeletionTimestamp.IsZero() || conditions.IsFalse(c, controlplanev1.WorkspaceReadyCondition)
	}, client.InNamespace(obj.GetNamespace()))
}

// ofTemplate finds the control planes that a template makes.
func (r *Reconciler) ofTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(c *controlplanev1.CAPTControlPlane) bool {
		return c.Spec.WorkspaceTemplateRef.Key(c.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

func (r *Reconciler) requests(ctx context.Context, match func(*controlplanev1.CAPTControlPlane) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &controlplanev1.CAPTControlPlaneList{}, match, options...)
}

package captmachinepool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// ofCluster finds the pools of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, every, of(obj.GetNamespace(), obj.GetName())...)
}

// ofControlPlane finds the pools that wait for a control plane.
func (r *Reconciler) ofControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	waits := func(p *infrav1.CAPTMachinePool) bool { return !provisioned(&scope{pool: p}) }
	return r.requests(ctx, waits, of(obj.GetNamespace(), name)...)
}

// ofTemplate finds the pools that a template makes.
func (r *Reconciler) ofTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(p *infrav1.CAPTMachinePool) bool {
		return p.Spec.WorkspaceTemplateRef.Key(p.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

// ofNode finds the pools of the cluster of a node: each has to see whether it is
// one of its own.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, _ *corev1.Node) []ctrl.Request {
	return r.requests(ctx, every, of(cluster.Namespace, cluster.Name)...)
}

func every(*infrav1.CAPTMachinePool) bool { return true }

// of lists what belongs to a Cluster.
func of(namespace, cluster string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}}
}

func (r *Reconciler) requests(ctx context.Context, match func(*infrav1.CAPTMachinePool) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTMachinePoolList{}, match, options...)
}

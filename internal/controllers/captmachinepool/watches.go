package captmachinepool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/reconcile"
)

// requestsForCluster returns the pools of a Cluster.
func (r *Reconciler) requestsForCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, all, nodes.InCluster(obj.GetNamespace(), obj.GetName())...)
}

// requestsForControlPlane returns the pools of a control plane: they wait for it, and
// follow its version.
func (r *Reconciler) requestsForControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return r.requests(ctx, all, nodes.InCluster(obj.GetNamespace(), name)...)
}

// requestsForTemplate returns the pools that use a template.
func (r *Reconciler) requestsForTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(p *infrav1.CAPTMachinePool) bool {
		return p.Spec.WorkspaceTemplateRef.Key(p.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

// requestsForNode returns the pools of a node's cluster. Each finds out whether the
// node is one of its own.
func (r *Reconciler) requestsForNode(ctx context.Context, cluster client.ObjectKey, _ *corev1.Node) []ctrl.Request {
	return r.requests(ctx, all, nodes.InCluster(cluster.Namespace, cluster.Name)...)
}

func all(*infrav1.CAPTMachinePool) bool { return true }

func (r *Reconciler) requests(ctx context.Context, match func(*infrav1.CAPTMachinePool) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTMachinePoolList{}, match, options...)
}

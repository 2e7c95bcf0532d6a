package captmachine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// The indexes of machines: by the provider ID and by the name of the node.
const (
	providerIDIndex = "capt.providerID"
	nodeNameIndex   = "capt.nodeName"
)

func index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, value := range map[string]func(*infrav1.CAPTMachine) string{
		providerIDIndex: func(m *infrav1.CAPTMachine) string { return m.Spec.ProviderID },
		nodeNameIndex:   func(m *infrav1.CAPTMachine) string { return m.Status.NodeName },
	} {
		err := indexer.IndexField(ctx, &infrav1.CAPTMachine{}, name, func(obj client.Object) []string {
			machine, ok := obj.(*infrav1.CAPTMachine)
			if !ok || value(machine) == "" {
				return nil
			}
			return []string{value(machine)}
		})
		if err != nil {
			return fmt.Errorf("indexing machines by %s: %w", name, err)
		}
	}
	return nil
}

// ofCluster finds the machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, every, of(obj.GetNamespace(), obj.GetName())...)
}

// ofControlPlane finds the machines that a control plane may be waited for by:
// those that have been made are not changed by it.
func (r *Reconciler) ofControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool { return m.Spec.ProviderID == "" }, of(obj.GetNamespace(), name)...)
}

// ofTemplate finds the machines that a template makes.
func (r *Reconciler) ofTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool {
		return m.Spec.WorkspaceTemplateRef.Key(m.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

// ofPool finds the machines that share the settings of a pool.
func (r *Reconciler) ofPool(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool {
		return m.Spec.NodeGroupRef != nil && m.Spec.NodeGroupRef.Name == obj.GetName()
	}, client.InNamespace(obj.GetNamespace()))
}

// ofNode finds the machine behind a node of a cluster.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []ctrl.Request {
	requests := r.requests(ctx, every, append(of(cluster.Namespace, cluster.Name), client.MatchingFields{nodeNameIndex: node.Name})...)
	if node.Spec.ProviderID == "" {
		return requests
	}
	return append(requests,
		r.requests(ctx, every, append(of(cluster.Namespace, cluster.Name), client.MatchingFields{providerIDIndex: node.Spec.ProviderID})...)...)
}

func every(*infrav1.CAPTMachine) bool { return true }

// of lists what belongs to a Cluster.
func of(namespace, cluster string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}}
}

func (r *Reconciler) requests(ctx context.Context, match func(*infrav1.CAPTMachine) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTMachineList{}, match, options...)
}

package captmachine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
	"github.com/appthrust/capt/internal/reconcile"
)

// The indexes of machines by provider ID and by node name.
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

// requestsForCluster returns the machines of a Cluster.
func (r *Reconciler) requestsForCluster(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, all, nodes.InCluster(obj.GetNamespace(), obj.GetName())...)
}

// requestsForControlPlane returns the machines that may wait for a control plane, and
// those with another version. It does not change existing instances.
func (r *Reconciler) requestsForControlPlane(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	served := ""
	if controlPlane, ok := obj.(*controlplanev1.CAPTControlPlane); ok {
		served = kubeversion.MinorOf(controlPlane.Status.Version)
	}
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool {
		return m.Spec.ProviderID == "" || kubeversion.MinorOf(m.Status.Version) != served || meta.IsStatusConditionFalse(m.Status.Conditions, infrav1.VersionCurrentCondition)
	}, nodes.InCluster(obj.GetNamespace(), name)...)
}

// requestsForTemplate returns the machines that use a template.
func (r *Reconciler) requestsForTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool {
		return m.Spec.WorkspaceTemplateRef.Key(m.Namespace) == client.ObjectKeyFromObject(obj)
	})
}

// requestsForPool returns the machines that share the settings of a pool.
func (r *Reconciler) requestsForPool(ctx context.Context, obj client.Object) []ctrl.Request {
	return r.requests(ctx, func(m *infrav1.CAPTMachine) bool {
		return m.Spec.NodeGroupRef != nil && m.Spec.NodeGroupRef.Name == obj.GetName()
	}, client.InNamespace(obj.GetNamespace()))
}

// requestsForNode returns the machine of a node.
func (r *Reconciler) requestsForNode(ctx context.Context, cluster client.ObjectKey, node *corev1.Node) []ctrl.Request {
	requests := r.requests(ctx, all, append(nodes.InCluster(cluster.Namespace, cluster.Name), client.MatchingFields{nodeNameIndex: node.Name})...)
	if node.Spec.ProviderID == "" {
		return requests
	}
	return append(requests,
		r.requests(ctx, all, append(nodes.InCluster(cluster.Namespace, cluster.Name), client.MatchingFields{providerIDIndex: node.Spec.ProviderID})...)...)
}

func all(*infrav1.CAPTMachine) bool { return true }

func (r *Reconciler) requests(ctx context.Context, match func(*infrav1.CAPTMachine) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.CAPTMachineList{}, match, options...)
}

package captmachine

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// node waits until the node of the instance is ready.
func (r *Reconciler) node(ctx context.Context, s *scope) error {
	reader, err := r.nodes.Reader(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	s.node, err = nodes.Find(ctx, reader, s.machine.Spec.ProviderID, s.machine.Status.NodeName)
	if err != nil {
		return err
	}
	if s.node == nil {
		return fault.Wait(infrav1.WaitingForNodeReason, "No node with provider ID %s has joined the cluster", s.machine.Spec.ProviderID)
	}
	s.machine.Status.NodeName = s.node.Name
	if status, message := nodes.Ready(s.node); status != corev1.ConditionTrue {
		return fault.Wait(infrav1.NodeNotReadyReason, "Node %s is not ready: %s", s.node.Name, message)
	}
	return nil
}

func nodeMessage(s *scope) string { return "Node " + s.node.Name + " is ready" }

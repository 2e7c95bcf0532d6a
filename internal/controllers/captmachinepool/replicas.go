package captmachinepool

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// replicas waits until the number of nodes is the desired one. The previous step
// observes the nodes.
func (r *Reconciler) replicas(ctx context.Context, s *scope) error {
	if err := r.reportReplicas(ctx, s); err != nil {
		return err
	}
	existing := len(s.pool.Spec.ProviderIDList)
	if s.desired().ReplicasManagedExternally() || existing == int(s.desired().Replicas()) {
		return nil
	}
	return fault.Wait(infrav1.WaitingForReplicasReason, "%d of %d nodes exist", existing, s.desired().Replicas())
}

func replicasReason(s *scope) string {
	if s.desired().ReplicasManagedExternally() {
		return infrav1.ReplicasManagedElsewhereReason
	}
	return ""
}

func replicasMessage(s *scope) string {
	if s.desired().ReplicasManagedExternally() && s.topologyReplicas() {
		return fmt.Sprintf("%d nodes exist; another system manages their number. It is not written to MachinePool %s, because spec.topology of the Cluster sets replicas: remove them there", len(s.pool.Spec.ProviderIDList), s.owner.Name)
	}
	if s.desired().ReplicasManagedExternally() {
		return fmt.Sprintf("%d nodes exist; another system manages their number", len(s.pool.Spec.ProviderIDList))
	}
	return fmt.Sprintf("%d nodes exist", len(s.pool.Spec.ProviderIDList))
}

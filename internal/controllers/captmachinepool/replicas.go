package captmachinepool

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// replicas compares how many nodes there are with how many are wanted. What
// brings the missing ones is the step before.
func replicas(_ context.Context, s *scope) error {
	there := len(s.pool.Spec.ProviderIDList)
	if s.desired().ReplicasManagedExternally() || there == int(s.desired().Replicas()) {
		return nil
	}
	return fault.Wait(infrav1.WaitingForReplicasReason, "There are %d of %d nodes", there, s.desired().Replicas())
}

func replicasReason(s *scope) string {
	if s.desired().ReplicasManagedExternally() {
		return infrav1.ReplicasManagedElsewhereReason
	}
	return ""
}

func replicasMessage(s *scope) string {
	if s.desired().ReplicasManagedExternally() {
		return fmt.Sprintf("There are %d nodes; another system decides how many", len(s.pool.Spec.ProviderIDList))
	}
	return fmt.Sprintf("There are %d nodes", len(s.pool.Spec.ProviderIDList))
}

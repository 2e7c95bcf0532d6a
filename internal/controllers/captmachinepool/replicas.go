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
	if s.managedElsewhere() || there == int(s.desired()) {
		return nil
	}
	return fault.Wait(infrav1.WaitingForReplicasReason, "There are %d of %d nodes", there, s.desired())
}

func replicasReason(s *scope) string {
	if s.managedElsewhere() {
		return infrav1.ReplicasManagedElsewhereReason
	}
	return ""
}

func replicasMessage(s *scope) string {
	if s.managedElsewhere() {
		return fmt.Sprintf("There are %d nodes; another system decides how many", len(s.pool.Spec.ProviderIDList))
	}
	return fmt.Sprintf("There are %d nodes", len(s.pool.Spec.ProviderIDList))
}

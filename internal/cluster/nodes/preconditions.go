package nodes

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Preconditions are the facts that decide whether nodes can be created.
type Preconditions struct {
	Cluster *clusterv1.Cluster
	// Owner is the kind and name of the owning Machine or MachinePool, or empty.
	Owner string
	// OwnerDeleting reports whether the owner is being deleted.
	OwnerDeleting bool
	// BootstrapSecret is the owner's bootstrap data. An empty name means that none
	// is needed.
	BootstrapSecret *string
	// ControlPlane reports whether the nodes belong to a control plane, and so
	// cannot wait for it.
	ControlPlane bool
}

// Check returns a wait for the first precondition that is not met.
func (p Preconditions) Check() error {
	status := &p.Cluster.Status.Initialization
	switch {
	case !p.Cluster.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.DeletingReason, "Cluster %s is being deleted: no nodes are created", p.Cluster.Name)
	case p.OwnerDeleting:
		return fault.Wait(infrav1.DeletingReason, "%s is being deleted: no nodes are created", p.Owner)
	case p.Owner != "" && !ptr.Deref(status.InfrastructureProvisioned, false):
		return fault.Wait(infrav1.WaitingForInfrastructureReason, "Cluster %s is not provisioned yet: it has no infrastructure, or no control plane of CAPT", p.Cluster.Name)
	case !p.ControlPlane && !ptr.Deref(status.ControlPlaneInitialized, false):
		return fault.Wait(infrav1.WaitingForControlPlaneReason, "The control plane of Cluster %s is not initialized yet", p.Cluster.Name)
	case p.Owner != "" && p.BootstrapSecret == nil:
		return fault.Wait(infrav1.WaitingForBootstrapDataReason, "%s has no bootstrap data yet", p.Owner)
	}
	return nil
}

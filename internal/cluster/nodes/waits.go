package nodes

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// Start is what has to be known before nodes are made.
type Start struct {
	Cluster *clusterv1.Cluster
	// Owner names the Machine or MachinePool above, if any, and Leaving tells
	// that it is being deleted.
	Owner   string
	Leaving bool
	// Bootstrap is its bootstrap data. An empty name says that none are needed.
	Bootstrap *string
	// ControlPlane is set for the nodes of a control plane, which cannot wait for
	// it.
	ControlPlane bool
}

// Wait tells what is still missing before nodes can be made.
func (s Start) Wait() error {
	status := &s.Cluster.Status.Initialization
	switch {
	case !s.Cluster.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.DeletingReason, "Cluster %s is being deleted: no node is made", s.Cluster.Name)
	case s.Leaving:
		return fault.Wait(infrav1.DeletingReason, "%s is being deleted: no node is made", s.Owner)
	case s.Owner != "" && !is(status.InfrastructureProvisioned):
		return fault.Wait(infrav1.WaitingForInfrastructureReason, "The infrastructure of Cluster %s is not provisioned yet", s.Cluster.Name)
	case !s.ControlPlane && !is(status.ControlPlaneInitialized):
		return fault.Wait(infrav1.WaitingForControlPlaneReason, "The control plane of Cluster %s is not initialised yet", s.Cluster.Name)
	case s.Owner != "" && s.Bootstrap == nil:
		return fault.Wait(infrav1.WaitingForBootstrapDataReason, "%s has no bootstrap data yet", s.Owner)
	}
	return nil
}

func is(flag *bool) bool { return flag != nil && *flag }

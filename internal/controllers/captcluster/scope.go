package captcluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope holds what one reconciliation of a CAPTCluster reads.
type scope struct {
	infra   *infrav1.CAPTCluster
	cluster *clusterv1.Cluster
	// domains are the failure domains, in any order. The infrastructure step sets them.
	domains []clusterv1.FailureDomain
}

// scope returns the scope of a reconciliation. It waits for the owning Cluster,
// unless the CAPTCluster is being deleted.
func (r *Reconciler) scope(_ context.Context, infra *infrav1.CAPTCluster, cluster *clusterv1.Cluster) (*scope, error) {
	owned := cluster != nil && util.IsOwnedByObject(infra, cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind())
	if !owned && infra.DeletionTimestamp.IsZero() {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "No Cluster owns this CAPTCluster: name it in spec.infrastructureRef of a Cluster")
	}
	return &scope{infra: infra, cluster: cluster}, nil
}

// clusterName returns the name of the Cluster, which may be deleted already, or an
// empty string if it is not known.
func (s *scope) clusterName() string {
	if s.cluster != nil {
		return s.cluster.Name
	}
	return s.infra.Labels[clusterv1.ClusterNameLabel]
}

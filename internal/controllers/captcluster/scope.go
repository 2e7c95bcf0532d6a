package captcluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what was read for one look at a CAPTCluster.
type scope struct {
	infra   *infrav1.CAPTCluster
	cluster *clusterv1.Cluster
	// zones are the zones of the VPC, filled by the first step.
	zones []string
}

// scope waits for the Cluster that owns the infrastructure. One that is being
// deleted needs none.
func (r *Reconciler) scope(_ context.Context, infra *infrav1.CAPTCluster, cluster *clusterv1.Cluster) (*scope, error) {
	owned := cluster != nil && util.IsOwnedByObject(infra, cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind())
	if !owned && infra.DeletionTimestamp.IsZero() {
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "No Cluster owns this CAPTCluster: name it in spec.infrastructureRef of a Cluster")
	}
	return &scope{infra: infra, cluster: cluster}, nil
}

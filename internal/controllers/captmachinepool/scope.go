package captmachinepool

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// scope is what one reconcile of a pool has read.
type scope struct {
	pool *infrav1.CAPTMachinePool
	// cluster and owner, the owning MachinePool, are nil only for a pool that is
	// being deleted.
	cluster *clusterv1.Cluster
	owner   *clusterv1.MachinePool
	now     time.Time
	// writtenList is the list of provider IDs that the API server has.
	writtenList []string

	// The first step sets these.
	info  *desired.ClusterInfo
	apply *infrav1.WorkspaceTemplateApply
	// applied reports whether the workspace is applied as desired.
	applied bool
	outputs outputs

	// followed reports whether the list of nodes is that of the cluster.
	followed bool
	// nextRetirement is when the node of a deleted instance leaves the list, or zero.
	nextRetirement time.Duration
}

// scope waits for the Cluster and the owning MachinePool. A pool that is being
// deleted needs neither.
func (r *Reconciler) scope(ctx context.Context, pool *infrav1.CAPTMachinePool, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{pool: pool, cluster: cluster, now: r.Now(), writtenList: slices.Clone(pool.Spec.ProviderIDList)}
	if !pool.DeletionTimestamp.IsZero() {
		return s, nil
	}
	owner, err := util.GetOwnerMachinePool(ctx, r.Client, pool.ObjectMeta)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the owning MachinePool: %w", err)
	case apierrors.IsNotFound(err) || owner == nil:
		return nil, fault.Wait(infrav1.WaitingForMachinePoolReason, "No MachinePool owns this CAPTMachinePool: refer to it in spec.template.spec.infrastructureRef of a MachinePool")
	case cluster == nil:
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTMachinePool has no Cluster: waiting for MachinePool %s to set the label %s", owner.Name, clusterv1.ClusterNameLabel)
	}
	s.owner = owner
	return s, nil
}

func (s *scope) clusterKey() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

// desired returns the pool with the objects that decide about its workspace.
func (s *scope) desired() *desired.MachinePool {
	return &desired.MachinePool{Cluster: s.cluster, Pool: s.pool, Owner: s.owner, Info: s.info, Existing: s.apply}
}

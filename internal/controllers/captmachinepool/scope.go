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

// scope is what was read for one look at a pool.
type scope struct {
	pool *infrav1.CAPTMachinePool
	// cluster and owner, the MachinePool above, are nil only for a pool that is
	// being deleted.
	cluster *clusterv1.Cluster
	owner   *clusterv1.MachinePool
	now     time.Time
	// listed is the list that Cluster API can read by now.
	listed []string

	// What the first step fills in.
	info  *desired.ClusterInfo
	apply *infrav1.WorkspaceTemplateApply
	// settled tells that the workspace is applied as it is wanted, and told what
	// it says of the pool.
	settled bool
	told    outputs
}

// scope waits for the Cluster and the MachinePool that a pool belongs to. One
// that is being deleted needs neither.
func (r *Reconciler) scope(ctx context.Context, pool *infrav1.CAPTMachinePool, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{pool: pool, cluster: cluster, now: r.Now(), listed: slices.Clone(pool.Spec.ProviderIDList)}
	if !pool.DeletionTimestamp.IsZero() {
		return s, nil
	}
	owner, err := util.GetOwnerMachinePool(ctx, r.Client, pool.ObjectMeta)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the MachinePool: %w", err)
	case apierrors.IsNotFound(err) || owner == nil:
		return nil, fault.Wait(infrav1.WaitingForMachinePoolReason, "No MachinePool owns this CAPTMachinePool: name it in spec.template.spec.infrastructureRef of a MachinePool")
	case cluster == nil:
		return nil, fault.Wait(infrav1.WaitingForClusterReason, "This CAPTMachinePool belongs to no Cluster: MachinePool %s sets the label %s", owner.Name, clusterv1.ClusterNameLabel)
	}
	s.owner = owner
	return s, nil
}

func (s *scope) clusterKey() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

// desired returns the pool with the objects that decide about its workspace.
func (s *scope) desired() *desired.MachinePool {
	return &desired.MachinePool{Cluster: s.cluster, Pool: s.pool, Owner: s.owner, Info: s.info, Existing: s.apply}
}

package captmachinepool

import (
	"context"
	"slices"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/nodes"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// nodeGroup runs the template and reports the nodes.
func (r *Reconciler) nodeGroup(ctx context.Context, s *scope) error {
	var err error
	if s.apply, s.info, err = nodes.FindWorkspace(ctx, r.Client, r.Workspaces, s.pool, s.preconditions()); err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.EnsureFrom(ctx, s.pool, s.pool.Spec.WorkspaceTemplateRef, s.desired().Workspace); err != nil {
		return err
	}
	s.pool.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	if err := workspace.Outcome(s.apply); err != nil {
		return err
	}
	return s.reportNodes()
}

// preconditions returns what has to be true before the node group is created.
func (s *scope) preconditions() nodes.Preconditions {
	return nodes.Preconditions{
		Cluster: s.cluster, Owner: "MachinePool " + s.owner.Name, OwnerDeleting: !s.owner.DeletionTimestamp.IsZero(),
		BootstrapSecret: s.owner.Spec.Template.Spec.Bootstrap.DataSecretName,
	}
}

// reportNodes copies the outputs of the workspace into the pool. Cluster API reads
// the list of nodes as soon as the pool is provisioned, so the list is written one
// reconcile earlier.
func (s *scope) reportNodes() error {
	var err error
	if s.outputs, err = outputsOf(s.apply); err != nil {
		return fault.Stall(infrav1.MissingOutputReason, "WorkspaceTemplateApply %s: %w", s.apply.Name, err)
	}
	s.pool.Spec.ProviderIDList = s.outputs.list
	if s.outputs.providerID != "" {
		s.pool.Spec.ProviderID = s.outputs.providerID
	}
	written := slices.Equal(s.writtenList, s.outputs.list)
	if !written && !provisioned(s) {
		return fault.WaitFor(time.Second, infrav1.WaitingForProviderIDReason, "The provider IDs are being written")
	}
	if written {
		s.pool.Status.Replicas = new(int32(len(s.outputs.list)))
	}
	s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = new(true), new(true)
	s.applied = true
	return nil
}

func nodeGroupMessage(s *scope) string {
	return "WorkspaceTemplateApply " + s.apply.Name + " is applied"
}

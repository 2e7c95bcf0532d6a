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

// nodeGroup runs the template, and takes over what it tells of the nodes.
func (r *Reconciler) nodeGroup(ctx context.Context, s *scope) error {
	var err error
	if s.apply, err = r.Workspaces.Find(ctx, s.pool); err != nil {
		return err
	}
	if s.apply == nil {
		if err := s.start().Wait(); err != nil {
			return err
		}
	}
	if s.info, err = nodes.ClusterInfo(ctx, r.Client, r.Workspaces, s.cluster); err != nil {
		return err
	}
	template, err := r.Workspaces.Template(ctx, s.pool.Namespace, s.pool.Spec.WorkspaceTemplateRef)
	if err != nil {
		return err
	}
	wanted, err := s.desired().Workspace(template)
	if err != nil {
		return err
	}
	if s.apply, err = r.Workspaces.Ensure(ctx, s.pool, wanted); err != nil {
		return err
	}
	s.pool.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	if err := workspace.Outcome(s.apply); err != nil {
		return err
	}
	return s.takeOver()
}

// start is what the node group waits for before it is made.
func (s *scope) start() nodes.Start {
	return nodes.Start{
		Cluster: s.cluster, Owner: "MachinePool " + s.owner.Name, Leaving: !s.owner.DeletionTimestamp.IsZero(),
		Bootstrap: s.owner.Spec.Template.Spec.Bootstrap.DataSecretName,
	}
}

// takeOver shows what the outputs tell. Cluster API reads the list of nodes once
// the node group is said to be there, so the list is written before that.
func (s *scope) takeOver() error {
	var err error
	if s.told, err = outputsOf(s.apply); err != nil {
		return fault.Stall(infrav1.MissingOutputReason, "WorkspaceTemplateApply %s: %w", s.apply.Name, err)
	}
	s.pool.Spec.ProviderIDList = s.told.list
	if s.told.providerID != "" {
		s.pool.Spec.ProviderID = s.told.providerID
	}
	written := slices.Equal(s.listed, s.told.list)
	if !written && !provisioned(s) {
		return fault.WaitFor(time.Second, infrav1.WaitingForProviderIDReason, "The provider IDs are being written")
	}
	if written {
		s.pool.Status.Replicas = new(int32(len(s.told.list)))
	}
	s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = new(true), new(true)
	s.settled = true
	return nil
}

func nodeGroupMessage(s *scope) string {
	return "WorkspaceTemplateApply " + s.apply.Name + " is applied"
}

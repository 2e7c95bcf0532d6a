package captmachinepool

import (
	"context"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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
	if err := s.bounds(); err != nil {
		return err
	}
	if s.surroundings, err = nodes.Look(ctx, r.Client, r.Workspaces, s.cluster); err != nil {
		return err
	}
	template, err := r.Workspaces.Template(ctx, s.pool.Namespace, s.pool.Spec.WorkspaceTemplateRef)
	if err != nil {
		return err
	}
	wanted, err := s.wanted(template)
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

func (s *scope) wanted(template *infrav1.WorkspaceTemplate) (workspace.Wanted, error) {
	variables, err := s.variables(template)
	if err != nil {
		return workspace.Wanted{}, err
	}
	return workspace.Wanted{
		Name: s.pool.Name, Cluster: s.cluster.Name,
		Connection: func(name string) string { return name + "-connection" },
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: s.pool.Spec.WorkspaceTemplateRef, Variables: variables, RequiredOutputs: []string{listOutput},
		},
	}, nil
}

// Workspace is the workspace that makes a new node group.
func Workspace(cluster *clusterv1.Cluster, owner *clusterv1.MachinePool, pool *infrav1.CAPTMachinePool, surroundings *nodes.Surroundings, template *infrav1.WorkspaceTemplate) (workspace.Wanted, error) {
	s := &scope{cluster: cluster, owner: owner, pool: pool, surroundings: surroundings}
	if err := s.bounds(); err != nil {
		return workspace.Wanted{}, err
	}
	return s.wanted(template)
}

// start is what the node group waits for before it is made.
func (s *scope) start() nodes.Start {
	return nodes.Start{
		Cluster: s.cluster, Owner: "MachinePool " + s.owner.Name, Leaving: !s.owner.DeletionTimestamp.IsZero(),
		Bootstrap: s.owner.Spec.Template.Spec.Bootstrap.DataSecretName,
	}
}

// bounds refuses a number of nodes that the cloud would refuse in the middle of
// a run.
func (s *scope) bounds() error {
	scaling := s.pool.Spec.Scaling
	if scaling == nil || s.managedElsewhere() {
		return nil
	}
	if wanted := s.desired(); wanted < *scaling.MinSize || wanted > *scaling.MaxSize {
		return fault.Stall(infrav1.ReplicasOutOfBoundsReason,
			"MachinePool %s wants %d nodes, but spec.scaling allows %d to %d: change one of them", s.owner.Name, wanted, *scaling.MinSize, *scaling.MaxSize)
	}
	return nil
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

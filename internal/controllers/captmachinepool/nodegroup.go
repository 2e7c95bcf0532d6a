package captmachinepool

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/capacity"
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
	s.reportCapacity()
	if s.apply, err = r.Workspaces.EnsureFrom(ctx, s.pool, s.pool.Spec.WorkspaceTemplateRef, s.desired().Workspace); err != nil {
		return err
	}
	s.pool.Status.WorkspaceRef = &infrav1.LocalReference{Name: s.apply.Name}
	outcome := workspace.Outcome(s.apply)
	if outcome != nil && (!provisioned(s) || !workspace.Applied(s.apply)) {
		return outcome
	}
	if s.outputs, err = r.readOutputs(ctx, s.apply); outcome != nil || err != nil {
		// The nodes are observed with the outputs of the previous run.
		return cmp.Or(outcome, err)
	}
	return s.reportNodes()
}

// reportCapacity reports the capacity of a node, for autoscalers that scale from zero.
func (s *scope) reportCapacity() {
	spec, status := &s.pool.Spec, &s.pool.Status
	status.Capacity, status.NodeInfo = capacity.Of(spec.InstanceTypes...)
	switch {
	case strings.HasPrefix(spec.AMIType, "WINDOWS_"):
		status.NodeInfo.OperatingSystem = "windows"
	case spec.AMIType != "" && spec.AMIType != "CUSTOM":
		status.NodeInfo.OperatingSystem = "linux"
	}
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
// reconcile earlier. With a selector, the next step observes the nodes of a
// provisioned pool.
func (s *scope) reportNodes() error {
	if s.outputs.providerID != "" {
		s.pool.Spec.ProviderID = s.outputs.providerID
	}
	if !provisioned(s) || len(s.outputs.selector) == 0 {
		if written := s.setList(s.outputs.list); !written && !provisioned(s) {
			return fault.WaitFor(time.Second, infrav1.WaitingForProviderIDReason, "The provider IDs are being written")
		}
	}
	s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = new(true), new(true)
	s.applied = true
	return nil
}

// setList sets the list of nodes. It reports whether the API server has the list;
// only then the number of nodes is reported.
func (s *scope) setList(list []string) (written bool) {
	s.pool.Spec.ProviderIDList = list
	if written = slices.Equal(s.writtenList, list); written {
		s.pool.Status.Replicas = new(int32(len(list)))
	}
	return written
}

func nodeGroupMessage(s *scope) string {
	return "WorkspaceTemplateApply " + s.apply.Name + " is applied"
}

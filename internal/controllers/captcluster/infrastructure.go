package captcluster

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// subnetOutputs are the outputs that can hold the subnets for nodes. The first one
// that is not empty is used.
var subnetOutputs = []string{"private_subnets", "private_subnet_ids", "subnet_ids"}

// infrastructure creates the VPC or other infrastructure, or looks up the existing VPC.
func (r *Reconciler) infrastructure(ctx context.Context, s *scope) error {
	switch spec := &s.infra.Spec; {
	case spec.ExistingVPCID != "":
		return r.existingVPC(ctx, s)
	case spec.TemplateRef() == nil:
		return nil
	}
	existing, err := r.Workspaces.Find(ctx, s.infra)
	if err != nil {
		return err
	}
	network := &desired.Network{Cluster: s.cluster, Infra: s.infra, Existing: existing}
	apply, err := r.Workspaces.EnsureFrom(ctx, s.infra, *s.infra.Spec.TemplateRef(), network.Workspace)
	if err != nil {
		return err
	}
	return s.recordWorkspace(apply)
}

// recordWorkspace writes the outputs of the workspace to the status, and returns
// its outcome. The outputs remain known while a change is applied.
func (s *scope) recordWorkspace(apply *infrav1.WorkspaceTemplateApply) error {
	s.infra.Status.WorkspaceRef = &infrav1.LocalReference{Name: apply.Name}
	if err := s.recordOutputs(apply); err != nil {
		return err
	}
	if err := workspace.Outcome(apply); err != nil {
		return err
	}
	if s.infra.Spec.VPCTemplateRef != nil && s.infra.Status.VPCID == "" {
		return fault.Stall(infrav1.VPCNotFoundReason, "Output %s of WorkspaceTemplateApply %s is empty", desired.VPCIDOutput, apply.Name)
	}
	return nil
}

func (s *scope) recordOutputs(apply *infrav1.WorkspaceTemplateApply) error {
	if !workspace.Applied(apply) {
		return nil
	}
	status := &s.infra.Status
	if err := workspace.Output(apply, desired.VPCIDOutput, &status.VPCID); err != nil {
		return err
	}
	for _, name := range subnetOutputs {
		var subnets []string
		if err := workspace.Output(apply, name, &subnets); err != nil {
			return err
		}
		if len(subnets) > 0 {
			status.SubnetIDs = subnets
			break
		}
	}
	if err := s.recordEndpoint(apply); err != nil {
		return err
	}
	return s.readDomains(apply)
}

func infrastructureMessage(s *scope) string {
	switch spec, status := &s.infra.Spec, &s.infra.Status; {
	case spec.ExistingVPCID != "":
		return fmt.Sprintf("Using VPC %s with %d subnets", status.VPCID, len(status.SubnetIDs))
	case spec.VPCTemplateRef != nil:
		return "VPC " + status.VPCID
	case status.WorkspaceRef != nil:
		return "WorkspaceTemplateApply " + status.WorkspaceRef.Name + " is applied"
	default:
		return "The cluster has no infrastructure of its own"
	}
}

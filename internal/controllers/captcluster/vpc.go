package captcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// subnetOutputs are the outputs that can hold the subnets for nodes. The first one
// that is not empty is used.
var subnetOutputs = []string{"private_subnets", "private_subnet_ids", "subnet_ids"}

// vpc creates the VPC, or looks up the existing one.
func (r *Reconciler) vpc(ctx context.Context, s *scope) error {
	if s.infra.Spec.ExistingVPCID != "" {
		return r.existingVPC(ctx, s)
	}
	existing, err := r.Workspaces.Find(ctx, s.infra)
	if err != nil {
		return err
	}
	network := &desired.Network{Cluster: s.cluster, Infra: s.infra, Existing: existing}
	apply, err := r.Workspaces.EnsureFrom(ctx, s.infra, *s.infra.Spec.VPCTemplateRef, network.Workspace)
	if err != nil {
		return err
	}
	return s.recordWorkspace(apply)
}

// recordWorkspace writes the outputs of the workspace to the status, and returns
// its outcome. The outputs remain known while a change of the VPC is applied.
func (s *scope) recordWorkspace(apply *infrav1.WorkspaceTemplateApply) error {
	s.infra.Status.WorkspaceRef = &infrav1.LocalReference{Name: apply.Name}
	if err := s.recordOutputs(apply); err != nil {
		return err
	}
	if err := workspace.Outcome(apply); err != nil {
		return err
	}
	if s.infra.Status.VPCID == "" {
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
	return workspace.Output(apply, "azs", &s.zones)
}

// setFailureDomains writes the zones of the VPC to the status.
func setFailureDomains(_ context.Context, s *scope) error {
	s.infra.Status.FailureDomains = nil
	for _, zone := range s.sortedZones() {
		s.infra.Status.FailureDomains = append(s.infra.Status.FailureDomains, clusterv1.FailureDomain{Name: zone, ControlPlane: new(true)})
	}
	return nil
}

// sortedZones returns each zone once, in alphabetical order.
func (s *scope) sortedZones() []string {
	return slices.Compact(slices.Sorted(slices.Values(s.zones)))
}

func vpcMessage(s *scope) string {
	if s.infra.Spec.ExistingVPCID != "" {
		return fmt.Sprintf("Using VPC %s with %d subnets", s.infra.Status.VPCID, len(s.infra.Status.SubnetIDs))
	}
	return "VPC " + s.infra.Status.VPCID
}

func zonesMessage(s *scope) string {
	if len(s.zones) == 0 {
		return "The template does not report zones: add an output azs to it"
	}
	return strings.Join(s.sortedZones(), ", ")
}

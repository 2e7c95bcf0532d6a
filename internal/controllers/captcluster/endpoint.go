package captcluster

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// recordEndpoint publishes the address of the API server if the outputs have it. Cluster
// API does not accept a change of it.
func (s *scope) recordEndpoint(apply *infrav1.WorkspaceTemplateApply) error {
	var address string
	if err := workspace.Output(apply, desired.EndpointOutput, &address); err != nil || address == "" {
		return err
	}
	found, err := desired.ParseEndpoint(address)
	if err != nil {
		return fault.Stall(infrav1.InvalidOutputReason, "Output %s of WorkspaceTemplateApply %s: %w", desired.EndpointOutput, apply.Name, err)
	}
	if published := s.infra.Spec.ControlPlaneEndpoint; published.IsValid() && published != found {
		return fault.Stall(infrav1.EndpointChangedReason, "Output %s of WorkspaceTemplateApply %s is %s, but spec.controlPlaneEndpoint is %s and cannot be changed: restore the old address, or create a new Cluster",
			desired.EndpointOutput, apply.Name, found.String(), published.String())
	}
	s.infra.Spec.ControlPlaneEndpoint = found
	return nil
}

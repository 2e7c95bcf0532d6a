package captcontrolplane

import (
	"context"
	"net"
	"strconv"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// endpoint publishes the address of the API server. Cluster API does not accept a
// change of it.
func endpoint(_ context.Context, s *scope) error {
	if s.apply == nil || !workspace.Applied(s.apply) {
		return fault.Wait(controlplanev1.WaitingForOutputsReason, "The workspace has no outputs yet")
	}
	var address string
	if err := workspace.Output(s.apply, desired.EndpointOutput, &address); err != nil {
		return err
	}
	if address == "" {
		return fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s is empty or sensitive: it must be the address of the API server", desired.EndpointOutput, s.apply.Name)
	}
	found, err := desired.ParseEndpoint(address)
	if err != nil {
		return fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s: %w", desired.EndpointOutput, s.apply.Name, err)
	}
	if published := s.controlPlane.Spec.ControlPlaneEndpoint; published.IsValid() && published != found {
		return fault.Stall(controlplanev1.EndpointChangedReason, "The address of the API server changed from %s to %s, which Cluster API does not support: restore the old address, or create a new Cluster", published.String(), found.String())
	}
	s.controlPlane.Spec.ControlPlaneEndpoint = found
	return nil
}

func endpointMessage(s *scope) string {
	e := s.controlPlane.Spec.ControlPlaneEndpoint
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

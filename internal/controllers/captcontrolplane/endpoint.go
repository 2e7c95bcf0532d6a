package captcontrolplane

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// httpsPort is the port of an address without one.
const httpsPort = 443

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
	found, err := parseEndpoint(address)
	if err != nil {
		return fault.Stall(controlplanev1.MissingOutputReason, "Output %s of WorkspaceTemplateApply %s: %w", desired.EndpointOutput, s.apply.Name, err)
	}
	if published := s.controlPlane.Spec.ControlPlaneEndpoint; published.IsValid() && published != found {
		return fault.Stall(controlplanev1.EndpointChangedReason, "The address of the API server changed from %s to %s, which Cluster API does not support: restore the old address, or create a new Cluster", published.String(), found.String())
	}
	s.controlPlane.Spec.ControlPlaneEndpoint = found
	return nil
}

// parseEndpoint parses an address with or without scheme and port.
func parseEndpoint(address string) (clusterv1.APIEndpoint, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return clusterv1.APIEndpoint{}, fmt.Errorf("%q is not an address such as https://api.example.com:6443", address)
	}
	endpoint := clusterv1.APIEndpoint{Host: u.Hostname(), Port: httpsPort}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil || port < 1 || port > 65535 {
			return clusterv1.APIEndpoint{}, fmt.Errorf("%q has an invalid port", address)
		}
		endpoint.Port = int32(port)
	}
	return endpoint, nil
}

func endpointMessage(s *scope) string {
	e := s.controlPlane.Spec.ControlPlaneEndpoint
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

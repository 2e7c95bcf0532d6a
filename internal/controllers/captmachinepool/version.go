package captmachinepool

import (
	"context"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// version reports whether the nodes have the version of the control plane. Without a
// version, the MachinePool follows it.
func version(_ context.Context, s *scope) error {
	if s.info == nil {
		return fault.Wait(infrav1.WaitingForControlPlaneReason, "The version of the control plane is not known")
	}
	behind := s.desired().VersionBehind()
	if behind == "" {
		return nil
	}
	return fault.Wait(infrav1.VersionBehindReason,
		"The nodes stay at %s, and the control plane has %s: set spec.template.spec.version of MachinePool %s, or remove it to follow the control plane. "+
			"Until then the node group cannot be replaced, for example to change instance types: EKS creates node groups only with the version of the control plane",
		behind, s.info.Version, s.owner.Name)
}

package captmachinepool

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// version reports whether the nodes have the version of the control plane. Without a
// version, the MachinePool follows it.
func version(_ context.Context, s *scope) error {
	if s.info == nil {
		return fault.Wait(infrav1.WaitingForControlPlaneReason, "The version of the control plane is not known")
	}
	switch behind, fixed := s.desired().VersionBehind(); {
	case behind == "":
		return nil
	case fixed:
		return fault.Wait(infrav1.VersionBehindReason,
			"The nodes stay at %s, and the control plane has %s: set spec.template.spec.version of MachinePool %s, or remove it to follow the control plane. "+
				"Until then the node group cannot be replaced, for example to change instance types: EKS creates node groups only with the version of the control plane",
			behind, s.info.Version, s.owner.Name)
	default:
		return fault.Wait(infrav1.VersionBehindReason,
			"The nodes stay at %s, and the control plane has %s: set the annotation %s of CAPTMachinePool %s to replace them step by step",
			behind, s.info.Version, infrav1.FollowsVersionAnnotation, s.pool.Name)
	}
}

// followVersion makes the nodes of a pool that has the version of the control plane
// follow it.
func (s *scope) followVersion() {
	if _, follows := s.pool.Annotations[infrav1.FollowsVersionAnnotation]; !follows && s.desired().StartsToFollow() {
		metav1.SetMetaDataAnnotation(&s.pool.ObjectMeta, infrav1.FollowsVersionAnnotation, "true")
	}
}

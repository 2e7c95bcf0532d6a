package captcontrolplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// recordRollout writes RollingOut, from which Cluster API computes that of the Cluster: it is True
// until the API server serves the version of the spec. It is not a problem, so it is not part of
// Ready, and no condition of a step.
func recordRollout(_ context.Context, s *scope) error {
	condition := metav1.Condition{Type: clusterv1.RollingOutCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotRollingOutReason}
	target, err := kubeversion.Parse(s.controlPlane.Spec.Version)
	if served, parseErr := kubeversion.Parse(s.controlPlane.Status.Version); err == nil && parseErr == nil && served.Less(target) {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.RollingOutReason
		condition.Message = fmt.Sprintf("Upgrading from %s to %s", served, target)
	}
	conditions.Set(s.controlPlane, condition)
	return nil
}

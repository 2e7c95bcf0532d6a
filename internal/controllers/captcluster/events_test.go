package captcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTransitionEvents(t *testing.T) {
	const none, normal, warning = "", "Normal", "Warning"
	for name, c := range map[string]struct {
		condition string
		status    metav1.ConditionStatus
		reason    string
		want      string
	}{
		"created":                  {infrav1.InfrastructureReadyCondition, metav1.ConditionTrue, "Ready", normal},
		"being created":            {infrav1.InfrastructureReadyCondition, metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason, normal},
		"failed":                   {infrav1.InfrastructureReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceFailedReason, warning},
		"not found":                {infrav1.InfrastructureReadyCondition, metav1.ConditionFalse, infrav1.VPCNotFoundReason, warning},
		"unknown":                  {infrav1.InfrastructureReadyCondition, metav1.ConditionUnknown, "InternalError", warning},
		"waits for control planes": {infrav1.ControlPlaneGoneCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneDeletionReason, normal},
		"destroyed":                {infrav1.DestroyedCondition, metav1.ConditionTrue, "Destroyed", normal},
		"zones":                    {infrav1.FailureDomainsKnownCondition, metav1.ConditionTrue, "FailureDomainsKnown", none},
		"Ready":                    {clusterv1.ReadyCondition, metav1.ConditionTrue, "Ready", none},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := transitionEvents.Event(metav1.Condition{Type: c.condition}, metav1.Condition{Type: c.condition, Status: c.status, Reason: c.reason})
			g.Expect(ok).To(Equal(c.want != none))
			g.Expect(event.Type).To(Equal(c.want))
		})
	}
}

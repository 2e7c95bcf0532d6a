package workspacenotification

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// transitionEvents announce a destination that does not work, and its recovery.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: []string{infrav1.DestinationValidCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Check"},
		{Conditions: []string{infrav1.DestinationValidCondition}, When: reconcile.Recovers, Action: "Check"},
		{Conditions: []string{infrav1.DeliveredCondition}, Reasons: []string{infrav1.DeliveryFailedReason}, Type: corev1.EventTypeWarning, Action: "Send"},
	},
}

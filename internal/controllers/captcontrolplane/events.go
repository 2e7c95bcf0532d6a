package captcontrolplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Reasons: []string{controlplanev1.APIServerUnreachableReason}, When: wasTrue, Type: corev1.EventTypeWarning},
		{},
	},
	Warnings: []string{
		infrav1.WorkspaceFailedReason,
		infrav1.FieldNotTakenReason,
		infrav1.WorkspaceNameTakenReason,
		infrav1.InvalidVariableReason,
		infrav1.SecretConflictReason,
		controlplanev1.DowngradeRefusedReason,
		controlplanev1.MissingOutputReason,
		controlplanev1.EndpointChangedReason,
		controlplanev1.TokenFailedReason,
		controlplanev1.BootstrapRejectedReason,
		controlplanev1.DeadlineExceededReason,
		controlplanev1.DeletionProtectedReason,
		controlplanev1.SpotRoleFailedReason,
		controlplanev1.LeftoversUnknownReason,
		controlplanev1.LeftoversReportedReason,
		controlplanev1.StepSkippedReason,
	},
}

// wasTrue distinguishes an API server that became unreachable from one that has
// not started yet.
func wasTrue(previous, _ metav1.Condition) bool {
	return previous.Status == metav1.ConditionTrue
}

// announce records the event of a transition.
func (r *Reconciler) announce(_ context.Context, s *scope, controlPlane *controlplanev1.CAPTControlPlane, previous, current metav1.Condition) {
	if current.Type == controlplanev1.SpotRoleReadyCondition && s != nil && s.spotRoleCreated {
		spotRoleCreated(current).Record(r.Recorder, controlPlane, nil)
		return
	}
	transitionEvents.Record(r.Recorder, controlPlane, previous, current)
}

func spotRoleCreated(c metav1.Condition) reconcile.Event {
	return reconcile.Event{
		Type: corev1.EventTypeNormal, Reason: c.Reason, Action: c.Type,
		Message: "Created the EC2 Spot service-linked role of the account",
	}
}

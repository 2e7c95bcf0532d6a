package captcontrolplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// warnings are the reasons that somebody has to do something about.
var warnings = map[string]bool{
	infrav1.WorkspaceFailedReason: true, infrav1.FieldNotTakenReason: true, infrav1.WorkspaceNameTakenReason: true,
	infrav1.InvalidVariableReason: true, infrav1.SecretConflictReason: true,
	controlplanev1.DowngradeRefusedReason: true, controlplanev1.MissingOutputReason: true, controlplanev1.EndpointChangedReason: true,
	controlplanev1.TokenFailedReason: true, controlplanev1.DeadlineExceededReason: true, controlplanev1.SpotRoleFailedReason: true,
}

// announce makes an event of each transition that people care about. Ready
// repeats the others, and is left out.
func (r *Reconciler) announce(_ context.Context, s *scope, controlPlane *controlplanev1.CAPTControlPlane, was, is metav1.Condition) {
	switch {
	case is.Type == clusterv1.ReadyCondition, is.Type == clusterv1.PausedCondition:
		return
	case is.Type == controlplanev1.SpotRoleReadyCondition && s != nil && s.spotRoleCreated:
		r.event(controlPlane, corev1.EventTypeNormal, is, "Created the EC2 Spot service-linked role of the account")
		return
	case warnings[is.Reason], is.Status == metav1.ConditionUnknown,
		is.Reason == controlplanev1.APIServerUnreachableReason && was.Status == metav1.ConditionTrue:
		r.event(controlPlane, corev1.EventTypeWarning, is, is.Message)
	default:
		r.event(controlPlane, corev1.EventTypeNormal, is, is.Message)
	}
}

func (r *Reconciler) event(controlPlane *controlplanev1.CAPTControlPlane, kind string, is metav1.Condition, message string) {
	if message == "" {
		message = is.Type + " is " + string(is.Status)
	}
	r.Recorder.Eventf(controlPlane, nil, kind, is.Reason, is.Type, "%s", message)
}

package captcluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// announce makes an event of each transition that people care about.
func (r *Reconciler) announce(_ context.Context, _ *scope, infra *infrav1.CAPTCluster, _, is metav1.Condition) {
	kind := corev1.EventTypeNormal
	switch {
	case is.Type != infrav1.VPCReadyCondition && is.Type != infrav1.DestroyedCondition && is.Type != infrav1.ControlPlaneGoneCondition:
		return
	case is.Status == metav1.ConditionUnknown, is.Reason == infrav1.WorkspaceFailedReason,
		is.Reason == infrav1.FieldNotTakenReason, is.Reason == infrav1.VPCNotFoundReason, is.Reason == infrav1.WorkspaceNameTakenReason:
		kind = corev1.EventTypeWarning
	}
	message := is.Message
	if message == "" {
		message = is.Type + " is " + string(is.Status)
	}
	r.Recorder.Eventf(infra, nil, kind, is.Reason, is.Type, "%s", message)
}

package captmachine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// warnings are the reasons that somebody has to do something about.
var warnings = map[string]bool{
	infrav1.WorkspaceFailedReason: true, infrav1.FieldNotTakenReason: true, infrav1.WorkspaceNameTakenReason: true,
	infrav1.MissingOutputReason: true, infrav1.ProviderIDChangedReason: true, infrav1.NodeNotReadyReason: true,
	infrav1.WorkloadClusterUnreachableReason: true, infrav1.DrainTimedOutReason: true,
}

// announce makes an event of each transition that people care about. Ready
// repeats the others, and is left out.
func (r *Reconciler) announce(_ context.Context, _ *scope, machine *infrav1.CAPTMachine, _, is metav1.Condition) {
	if is.Type == clusterv1.ReadyCondition || is.Type == clusterv1.PausedCondition {
		return
	}
	kind, message := corev1.EventTypeNormal, is.Message
	if warnings[is.Reason] || is.Status == metav1.ConditionUnknown {
		kind = corev1.EventTypeWarning
	}
	if message == "" {
		message = is.Type + " is " + string(is.Status)
	}
	r.Recorder.Eventf(machine, nil, kind, is.Reason, is.Type, "%s", message)
}

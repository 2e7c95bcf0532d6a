package workspacetemplateapply

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/queue"
)

// announce makes an event of each transition that people care about.
func (r *Reconciler) announce(_ context.Context, s *scope, apply *infrav1.WorkspaceTemplateApply, was, is metav1.Condition) {
	if s == nil {
		if is.Type == clusterv1.PausedCondition && is.Status == metav1.ConditionTrue {
			// Whoever is paused takes no slot from others.
			r.queue.Release(queue.Key{Namespace: apply.Namespace, Name: apply.Name})
		}
		return
	}
	if kind, action := eventOf(was, is); kind != "" {
		r.Recorder.Eventf(apply, nil, kind, is.Reason, action, "%s", message(is))
	}
}

// eventOf tells which event a transition is, if any. Ready repeats the others,
// and is left out.
func eventOf(was, is metav1.Condition) (kind, action string) {
	switch is.Type {
	case infrav1.AppliedCondition, infrav1.DestroyedCondition:
		action = "Run"
	case infrav1.NoDriftCondition:
		action = "CheckDrift"
		if was.Status == "" && is.Status == metav1.ConditionTrue {
			return "", ""
		}
	case infrav1.DependenciesReadyCondition, infrav1.InputsValidCondition, infrav1.OutputsWrittenCondition:
		// Only trouble, and its end.
		if is.Status == metav1.ConditionTrue && was.Status != metav1.ConditionFalse {
			return "", ""
		}
		action = "Prepare"
	default:
		return "", ""
	}
	if is.Status == metav1.ConditionUnknown {
		return corev1.EventTypeWarning, action
	}
	switch is.Reason {
	case infrav1.RunFailedReason, infrav1.RetryingReason, infrav1.RunTimedOutReason, infrav1.ProtectedResourceReason,
		infrav1.StateTooLargeReason, infrav1.DriftDetectedReason, infrav1.DependencyCycleReason, infrav1.LockHeldReason,
		infrav1.SecretConflictReason, infrav1.InvalidOutputNameReason, infrav1.ModuleInvalidReason, infrav1.MissingVariableReason,
		infrav1.UnknownVariableReason, infrav1.InvalidVariableReason, infrav1.UnresolvedPlaceholderReason, infrav1.InvalidVarFileReason,
		infrav1.UnknownOutputReason, infrav1.StateMissingReason, infrav1.BackendChangedReason, infrav1.SnapshotNotFoundReason:
		return corev1.EventTypeWarning, action
	}
	return corev1.EventTypeNormal, action
}

func message(is metav1.Condition) string {
	if is.Message != "" {
		return is.Message
	}
	return is.Type + " is " + string(is.Status)
}

package workspaceproviderconfig

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// announce makes an event of each transition that people care about.
func (r *Reconciler) announce(_ context.Context, _ *scope, config *infrav1.WorkspaceProviderConfig, was, is metav1.Condition) {
	if kind, action := eventOf(was, is); kind != "" {
		r.Recorder.Eventf(config, nil, kind, is.Reason, action, "%s", message(is))
	}
}

// eventOf tells which event a transition is, if any: trouble, its end, and a
// deletion that has to wait.
func eventOf(was, is metav1.Condition) (kind, action string) {
	switch is.Type {
	case infrav1.ConfigurationValidCondition, infrav1.CredentialsFoundCondition:
		action = "Check"
	case infrav1.DeletableCondition:
		action = "Delete"
	default:
		return "", ""
	}
	switch {
	case is.Status == metav1.ConditionFalse:
		return corev1.EventTypeWarning, action
	case is.Status == metav1.ConditionTrue && was.Status == metav1.ConditionFalse:
		return corev1.EventTypeNormal, action
	}
	return "", ""
}

func message(is metav1.Condition) string {
	if is.Message != "" {
		return is.Message
	}
	return is.Type + " is " + string(is.Status)
}

package workspacetemplate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// announce makes an event of each transition that people care about.
func (r *Reconciler) announce(_ context.Context, _ *scope, template *infrav1.WorkspaceTemplate, was, is metav1.Condition) {
	if kind, action := eventOf(was, is); kind != "" {
		r.Recorder.Eventf(template, nil, kind, is.Reason, action, "%s", message(is))
	}
}

func message(is metav1.Condition) string {
	if is.Message != "" {
		return is.Message
	}
	return is.Type + " is " + string(is.Status)
}

// eventOf tells which event a transition is, if any: a module that is not
// valid, its mending, and a deletion that has to wait.
func eventOf(was, is metav1.Condition) (kind, action string) {
	switch {
	case is.Type == infrav1.ModuleValidCondition && is.Status == metav1.ConditionFalse:
		return corev1.EventTypeWarning, "Inspect"
	case is.Type == infrav1.ModuleValidCondition && was.Status == metav1.ConditionFalse:
		return corev1.EventTypeNormal, "Inspect"
	case is.Type == infrav1.DeletableCondition && is.Status == metav1.ConditionFalse:
		return corev1.EventTypeWarning, "Delete"
	}
	return "", ""
}

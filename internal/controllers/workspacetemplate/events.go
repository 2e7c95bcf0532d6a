package workspacetemplate

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// transitionEvents announce an invalid module, the end of that problem, and a
// deletion that has to wait.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: []string{infrav1.ModuleValidCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Inspect"},
		{Conditions: []string{infrav1.ModuleValidCondition}, When: reconcile.Recovers, Action: "Inspect"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Delete"},
	},
}

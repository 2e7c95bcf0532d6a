package workspaceproviderconfig

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// transitionEvents announce a problem, its end, and a deletion that has to wait.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{Conditions: checks, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Check"},
		{Conditions: checks, When: reconcile.Recovers, Action: "Check"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.BecomesFalse, Type: corev1.EventTypeWarning, Action: "Delete"},
		{Conditions: []string{infrav1.DeletableCondition}, When: reconcile.Recovers, Action: "Delete"},
	},
}

var checks = []string{infrav1.ConfigurationValidCondition, infrav1.CredentialsFoundCondition}

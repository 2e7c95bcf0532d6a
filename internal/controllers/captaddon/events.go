package captaddon

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// transitionEvents are the events of the add-on as a whole.
var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{{
		Conditions: []string{clusterv1.ReadyCondition},
		When:       reconcile.BecomesTrue,
		Action:     "Install",
		Message:    "The add-on is ready in every cluster",
	}},
}

// event returns the event of a cluster whose reason has changed.
func (in *installation) event() (reconcile.Event, bool) {
	if in.current.Reason == in.previous.Reason {
		return reconcile.Event{}, false
	}
	event := reconcile.Event{Type: corev1.EventTypeNormal, Reason: in.current.Reason, Action: "Install"}
	if addonsv1.IsFailure(in.current.Reason) {
		event.Type = corev1.EventTypeWarning
	}
	text := in.current.Message
	if text == "" {
		text = "The add-on is ready"
	}
	event.Message = fmt.Sprintf("Cluster %s: %s", in.name, text)
	return event, true
}

// nameTaken is the event of an add-on whose name another one has in a namespace to which it is lent.
func nameTaken(namespace string) reconcile.Event {
	return reconcile.Event{
		Type: corev1.EventTypeWarning, Reason: "NameTaken", Action: "Lend",
		Message: fmt.Sprintf("Namespace %s has another add-on of this name, so this one is not installed there", namespace),
	}
}

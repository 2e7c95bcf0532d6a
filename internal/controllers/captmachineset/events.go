package captmachineset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
)

func normal(reason, action, format string, args ...any) reconcile.Event {
	return reconcile.Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

func scaledUp(names []string) reconcile.Event {
	return normal("ScaledUp", "Create", "Created %d machines: %s", len(names), message.List(names, maxNames))
}

func scaledDown(names []string) reconcile.Event {
	return normal("ScaledDown", "Delete", "Deleted %d machines: %s", len(names), message.List(names, maxNames))
}

func unhealthyReplaced(names []string) reconcile.Event {
	return reconcile.Event{
		Type: corev1.EventTypeWarning, Reason: "UnhealthyReplaced", Action: "Delete",
		Message: fmt.Sprintf("Deleted %d unhealthy machines to replace them: %s", len(names), message.List(names, maxNames)),
	}
}

func machineAdopted(name string) reconcile.Event {
	return normal("MachineAdopted", "Adopt", "Adopted machine %s: its labels match and it has no controller", name)
}

func machineReleased(name string) reconcile.Event {
	return normal("MachineReleased", "Release", "Released machine %s: its labels no longer match", name)
}

package captmachineset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// tell records an event about a set. The related object may be nil.
func (r *Reconciler) tell(set *infrav1.CAPTMachineSet, related runtime.Object, e reconcile.Event) {
	e.Record(r.Recorder, set, related)
}

func normal(reason, action, format string, args ...any) reconcile.Event {
	return reconcile.Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

func scaledUp(names []string) reconcile.Event {
	return normal("ScaledUp", "Create", "Created %d machines: %s", len(names), listed(names))
}

func scaledDown(names []string) reconcile.Event {
	return normal("ScaledDown", "Delete", "Deleted %d machines: %s", len(names), listed(names))
}

func machineAdopted(name string) reconcile.Event {
	return normal("MachineAdopted", "Adopt", "Adopted machine %s: its labels match and it has no controller", name)
}

func machineReleased(name string) reconcile.Event {
	return normal("MachineReleased", "Release", "Released machine %s: its labels no longer match", name)
}

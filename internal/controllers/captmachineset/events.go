package captmachineset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// notice is an event about a set.
type notice struct {
	reason, action, text string
}

// tell makes an event of a notice. What it relates to may be nil.
func (r *Reconciler) tell(set *infrav1.CAPTMachineSet, related runtime.Object, n notice) {
	r.Recorder.Eventf(set, related, corev1.EventTypeNormal, n.reason, n.action, "%s", n.text)
}

func scaledUp(names []string) notice {
	return notice{"ScaledUp", "Create", fmt.Sprintf("Created %d machines: %s", len(names), listed(names))}
}

func scaledDown(names []string) notice {
	return notice{"ScaledDown", "Delete", fmt.Sprintf("Deleted %d machines: %s", len(names), listed(names))}
}

func machineAdopted(name string) notice {
	return notice{"MachineAdopted", "Adopt", fmt.Sprintf("Adopted machine %s, whose labels match and which nobody controlled", name)}
}

func machineReleased(name string) notice {
	return notice{"MachineReleased", "Release", fmt.Sprintf("Released machine %s, whose labels do not match any more", name)}
}

package captmachinedeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// notice is an event about a deployment.
type notice struct {
	kind, reason, action, text string
}

// tell makes an event of a notice.
func (r *Reconciler) tell(d *infrav1.CAPTMachineDeployment, related runtime.Object, n notice) {
	r.Recorder.Eventf(d, related, n.kind, n.reason, n.action, "%s", n.text)
}

func normal(reason, action, format string, args ...any) notice {
	return notice{corev1.EventTypeNormal, reason, action, fmt.Sprintf(format, args...)}
}

func setCreated(name string, size int32, revision int64) notice {
	return normal("SetCreated", "Create", "Created CAPTMachineSet %s with %d machines for revision %d", name, size, revision)
}

func setScaled(name string, from, to int32) notice {
	if to > from {
		return normal("ScaledUp", "Scale", "Scaled up CAPTMachineSet %s from %d to %d", name, from, to)
	}
	return normal("ScaledDown", "Scale", "Scaled down CAPTMachineSet %s from %d to %d", name, from, to)
}

func setAdopted(name string) notice {
	return normal("SetAdopted", "Adopt", "Adopted CAPTMachineSet %s, whose labels match and which nobody controlled", name)
}

func setReleased(name string) notice {
	return normal("SetReleased", "Release", "Released CAPTMachineSet %s, whose labels do not match any more", name)
}

func rolledBack(revision int64, changed bool) notice {
	if !changed {
		return normal("RollbackUnchanged", "Rollback", "The template of revision %d is in place already", revision)
	}
	return normal("RolledBack", "Rollback", "Returned to the template of revision %d", revision)
}

// announce makes an event of each transition that people care about.
func (r *Reconciler) announce(_ context.Context, _ *scope, d *infrav1.CAPTMachineDeployment, was, is metav1.Condition) {
	if n, ok := transition(was, is); ok {
		r.tell(d, nil, n)
	}
}

// transition is the event of a change of the condition Progressing, if it has
// one.
func transition(was, is metav1.Condition) (notice, bool) {
	if is.Type != infrav1.ProgressingCondition || was.Reason == is.Reason {
		return notice{}, false
	}
	switch is.Reason {
	case infrav1.RevisionNotFoundReason:
		return notice{corev1.EventTypeWarning, is.Reason, "Rollback", is.Message}, true
	case infrav1.ProgressDeadlineExceededReason, infrav1.SelectorMismatchReason:
		return notice{corev1.EventTypeWarning, is.Reason, "RollOut", is.Message}, true
	case infrav1.RolloutCompleteReason:
		return normal(is.Reason, "RollOut", "Every machine is available and up to date"), true
	}
	return notice{}, false
}

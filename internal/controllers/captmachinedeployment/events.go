package captmachinedeployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

var transitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{
			Conditions: []string{infrav1.ProgressingCondition},
			Reasons:    []string{infrav1.RevisionNotFoundReason},
			Action:     "Rollback",
		},
		{
			Conditions: []string{infrav1.ProgressingCondition},
			Reasons:    []string{infrav1.ProgressDeadlineExceededReason, infrav1.SelectorMismatchReason},
			Action:     "RollOut",
		},
		{
			Conditions: []string{infrav1.VersionCurrentCondition},
			Reasons:    []string{infrav1.VersionBehindReason},
			Action:     "FollowVersion",
		},
		{
			Conditions: []string{infrav1.ProgressingCondition},
			Reasons:    []string{infrav1.RolloutCompleteReason},
			Action:     "RollOut",
			Message:    "Every machine is available and up to date",
		},
	},
	Warnings: []string{
		infrav1.VersionBehindReason,
		infrav1.RevisionNotFoundReason,
		infrav1.ProgressDeadlineExceededReason,
		infrav1.SelectorMismatchReason,
	},
}

func normal(reason, action, format string, args ...any) reconcile.Event {
	return reconcile.Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

func setCreated(name string, size int32, revision int64) reconcile.Event {
	return normal("SetCreated", "Create", "Created CAPTMachineSet %s with %d machines for revision %d", name, size, revision)
}

func setScaled(name string, from, to int32) reconcile.Event {
	if to > from {
		return normal("ScaledUp", "Scale", "Scaled up CAPTMachineSet %s from %d to %d", name, from, to)
	}
	return normal("ScaledDown", "Scale", "Scaled down CAPTMachineSet %s from %d to %d", name, from, to)
}

func setAdopted(name string) reconcile.Event {
	return normal("SetAdopted", "Adopt", "Adopted CAPTMachineSet %s: its labels match and it has no controller", name)
}

func setReleased(name string) reconcile.Event {
	return normal("SetReleased", "Release", "Released CAPTMachineSet %s: its labels no longer match", name)
}

func rolledBack(revision int64, changed bool) reconcile.Event {
	if !changed {
		return normal("RollbackUnchanged", "Rollback", "The template of revision %d is already in use", revision)
	}
	return normal("RolledBack", "Rollback", "Rolled back to the template of revision %d", revision)
}

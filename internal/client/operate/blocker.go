package operate

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// passing are the reasons of a step before the run that end without a user.
var passing = []string{
	infrav1.WaitingForWorkspaceReason, infrav1.WaitingForSecretReason, infrav1.WaitingForConfigMapReason, infrav1.WaitingForSourceReason,
	infrav1.RunInProgressReason, infrav1.RunInterruptedReason, infrav1.LockHeldReason, infrav1.DeletingReason,
}

// Blocker returns the condition of the step that keeps a workspace from starting a run, or
// nil. Steps that were not reached keep their conditions, so Applied may be of earlier.
func Blocker(apply *infrav1.WorkspaceTemplateApply) *metav1.Condition {
	if !apply.DeletionTimestamp.IsZero() || apply.Status.Run != nil {
		return nil
	}
	for _, kind := range []string{infrav1.DependenciesReadyCondition, infrav1.InputsValidCondition} {
		if c := meta.FindStatusCondition(apply.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// NeedsUser reports whether a Blocker stays until a user changes something.
func NeedsUser(blocker *metav1.Condition) bool {
	return blocker != nil && blocker.Status == metav1.ConditionFalse && !slices.Contains(passing, blocker.Reason)
}

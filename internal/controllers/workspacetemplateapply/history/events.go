package history

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/reconcile"
)

// TransitionEvents are the events of changed conditions.
var TransitionEvents = reconcile.EventTable{
	Rules: []reconcile.EventRule{
		{
			Conditions: []string{infrav1.AppliedCondition, infrav1.DestroyedCondition},
			Action:     "Run",
		},
		{
			Conditions: []string{infrav1.NoDriftCondition},
			When:       reconcile.IsNotInitiallyTrue,
			Action:     "CheckDrift",
		},
		{
			Conditions: []string{infrav1.StateSavedCondition},
			When:       reconcile.IsNotInitiallyTrue,
			Action:     "SaveState",
		},
		{
			Conditions: []string{infrav1.DependenciesReadyCondition, infrav1.InputsValidCondition, infrav1.OutputsWrittenCondition},
			When:       reconcile.HasProblemOrRecovers,
			Action:     "Prepare",
		},
	},
	Warnings: []string{
		infrav1.RunFailedReason,
		infrav1.RetryingReason,
		infrav1.RunTimedOutReason,
		infrav1.ProtectedResourceReason,
		infrav1.PolicyDeniedReason,
		infrav1.StateTooLargeReason,
		infrav1.DriftDetectedReason,
		infrav1.DependencyCycleReason,
		infrav1.LockHeldReason,
		infrav1.SecretConflictReason,
		infrav1.InvalidOutputNameReason,
		infrav1.ModuleInvalidReason,
		infrav1.MissingVariableReason,
		infrav1.UnknownVariableReason,
		infrav1.InvalidVariableReason,
		infrav1.UnresolvedPlaceholderReason,
		infrav1.InvalidVarFileReason,
		infrav1.UnknownOutputReason,
		infrav1.ToolNotAvailableReason,
		infrav1.StateMissingReason,
		infrav1.StateForeignReason,
		infrav1.StateOutdatedReason,
		infrav1.InvalidStateCommandReason,
		infrav1.OutputsTooLargeReason,
		infrav1.BackendChangedReason,
		infrav1.SnapshotNotFoundReason,
		infrav1.NamespaceTerminatingReason,
		infrav1.StateRescuedReason,
		infrav1.StateNotMergedReason,
	},
}

// OneShotEnded returns the event of a special operation that has ended.
func OneShotEnded(eventType, text string) reconcile.Event {
	return reconcile.Event{Type: eventType, Reason: infrav1.OneShotEndedReason, Action: "EndOneShot", Message: text}
}

func planApproved(plan *infrav1.PlanStatus) reconcile.Event {
	return reconcile.Event{
		Type: corev1.EventTypeNormal, Reason: infrav1.PlanApprovedReason, Action: "Approve",
		Message: fmt.Sprintf("%s approved plan %s (%s)%s", plan.ApprovedBy, plan.ID, decision.PlanSummary(plan), decision.Quoted(plan.Comment)),
	}
}

func policyViolated(text string) reconcile.Event {
	return reconcile.Event{Type: corev1.EventTypeWarning, Reason: infrav1.PolicyViolatedReason, Action: "CheckPolicies", Message: text}
}

func shellOpened(shell *infrav1.ShellStatus) reconcile.Event {
	return reconcile.Event{Type: corev1.EventTypeWarning, Reason: infrav1.ShellOpenReason, Action: "OpenShell", Message: shellText(shell) + decision.Quoted(shell.Reason)}
}

func shellClosed(shell *infrav1.ShellStatus) reconcile.Event {
	return reconcile.Event{
		Type: corev1.EventTypeNormal, Reason: infrav1.ShellClosedReason, Action: "CloseShell",
		Message: fmt.Sprintf("%s closed shell %s", shellUser(shell), shell.ID),
	}
}

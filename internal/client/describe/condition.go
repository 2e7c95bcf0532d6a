package describe

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// notReported is the reason of an object without a status.
const notReported = "NotReported"

// summaryConditions are the conditions that summarise an object, in order of
// preference.
var summaryConditions = []string{clusterv1.ReadyCondition, clusterv1.AvailableCondition, clusterv1.MachineSetMachinesReadyCondition}

// summaryCondition returns the condition that summarises an object, or nil.
func summaryCondition(obj client.Object) *metav1.Condition {
	all := ConditionsOf(obj)
	for _, name := range summaryConditions {
		if c := meta.FindStatusCondition(all, name); c != nil {
			return c
		}
	}
	// A Cluster whose class does not exist has no other condition.
	return conditionWith(obj, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse)
}

// ConditionsOf returns the conditions of an object.
func ConditionsOf(obj client.Object) []metav1.Condition {
	if c, ok := obj.(conditions.Getter); ok {
		return c.GetConditions()
	}
	return nil
}

// attentionReasons are the reasons of conditions that stay False until a user
// acts.
var attentionReasons = []string{
	infrav1.WaitingForApprovalReason, infrav1.PlanRejectedReason, infrav1.ProtectedResourceReason, infrav1.PolicyDeniedReason,
	infrav1.LockHeldReason, infrav1.RunCanceledReason, infrav1.BackendChangedReason,
	infrav1.DeploymentPausedReason, infrav1.DriftDetectedReason, infrav1.HeldByOwnerReason,
	infrav1.NamespaceTerminatingReason, infrav1.StateNotMergedReason,
}

// failureReasons are the reasons of failed operations and invalid input.
var failureReasons = []string{
	infrav1.RunFailedReason, infrav1.RetryingReason, infrav1.RunTimedOutReason, infrav1.StateTooLargeReason,
	infrav1.StateMissingReason, infrav1.StateForeignReason, infrav1.StateOutdatedReason,
	infrav1.InvalidStateCommandReason, infrav1.OutputsTooLargeReason, infrav1.SnapshotNotFoundReason, infrav1.DependencyCycleReason,
	infrav1.UnresolvedPlaceholderReason, infrav1.MissingVariableReason, infrav1.UnknownVariableReason,
	infrav1.InvalidVariableReason, infrav1.UnknownOutputReason, infrav1.InvalidVarFileReason,
	infrav1.InvalidOutputNameReason, infrav1.SecretConflictReason, infrav1.ModuleInvalidReason,
	infrav1.WorkspaceFailedReason, infrav1.WorkspaceNameTakenReason, infrav1.FieldNotTakenReason,
	infrav1.VPCNotFoundReason, infrav1.MissingOutputReason, infrav1.ProviderIDChangedReason,
	infrav1.WorkloadClusterUnreachableReason, infrav1.ProgressDeadlineExceededReason,
	infrav1.RevisionNotFoundReason, infrav1.InvalidStrategyReason, infrav1.SelectorMismatchReason,
	infrav1.ReplicasOutOfBoundsReason, infrav1.NodeNotReadyReason, infrav1.DrainTimedOutReason,
	controlplanev1.SpotRoleFailedReason, controlplanev1.TokenFailedReason, controlplanev1.EndpointChangedReason,
	controlplanev1.DowngradeRefusedReason, controlplanev1.APIServerUnreachableReason, controlplanev1.DeadlineExceededReason,
	controlplanev1.DeletionProtectedReason,
	addonsv1.ApplyFailedReason, addonsv1.TimedOutReason, addonsv1.ReleaseStalledReason, addonsv1.MissingKeyReason,
	addonsv1.InvalidTargetPathReason, addonsv1.VersionUnsupportedReason,
	clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.InternalErrorReason, clusterv1.InvalidConditionReportedReason, clusterv1.ObjectDeletedReason,
}

// StateFor returns the state of an object that is not ready for the given reason.
func StateFor(reason string) State {
	switch {
	case slices.Contains(attentionReasons, reason):
		return StateAttention
	case slices.Contains(failureReasons, reason):
		return StateFailed
	default:
		return StateWaiting
	}
}

// stateOf returns the state that a condition with positive polarity describes.
func stateOf(c *metav1.Condition) State {
	switch c.Status {
	case metav1.ConditionTrue:
		return StateReady
	case metav1.ConditionUnknown:
		return StateUnknown
	default:
		return StateFor(c.Reason)
	}
}

// setStatus sets the status of a node from its object's summary condition,
// deletion and pause.
func setStatus(n *Node, obj client.Object) {
	c := summaryCondition(obj)
	if c == nil {
		n.State, n.Reason, n.Since = StateUnknown, notReported, obj.GetCreationTimestamp()
	} else {
		n.State, n.Reason, n.Message, n.Since = stateOf(c), c.Reason, c.Message, c.LastTransitionTime
	}
	if n.State == StateReady {
		n.Message = ""
	}
	if deleted := obj.GetDeletionTimestamp(); !deleted.IsZero() {
		n.Reason, n.Since = infrav1.DeletingReason, *deleted
		if n.State == StateReady || n.State == StateUnknown {
			n.State = StateWaiting
		}
		if c := conditionWith(obj, infrav1.DestroyedCondition, metav1.ConditionFalse); c != nil && StateFor(c.Reason) != StateWaiting {
			n.State, n.Reason, n.Message, n.Since = StateFor(c.Reason), c.Reason, c.Message, c.LastTransitionTime
		}
	}
	if c := conditionWith(obj, clusterv1.PausedCondition, metav1.ConditionTrue); c != nil && n.State != StateReady {
		n.State, n.Reason, n.Since = StateAttention, clusterv1.PausedReason, c.LastTransitionTime
		n.Message = strings.TrimSpace("Reconciliation is paused. " + n.Message)
	}
}

// conditionWith returns the condition of a type if it has a status, else nil.
func conditionWith(obj client.Object, name string, status metav1.ConditionStatus) *metav1.Condition {
	if c := meta.FindStatusCondition(ConditionsOf(obj), name); c != nil && c.Status == status {
		return c
	}
	return nil
}

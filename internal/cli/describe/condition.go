package describe

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// conditioned is an object that says how it is.
type conditioned interface {
	GetConditions() []metav1.Condition
}

// notReported is the reason of what nobody has said anything about.
const notReported = "NotReported"

// headlines are the conditions that sum up an object, the best first.
var headlines = []string{clusterv1.ReadyCondition, clusterv1.AvailableCondition, clusterv1.MachineSetMachinesReadyCondition}

// headline is the condition that sums up an object, or nil.
func headline(obj client.Object) *metav1.Condition {
	says, ok := obj.(conditioned)
	if !ok {
		return nil
	}
	for _, kind := range headlines {
		if c := meta.FindStatusCondition(says.GetConditions(), kind); c != nil {
			return c
		}
	}
	return nil
}

// attention are the reasons that stay until a person acts.
var attention = []string{
	infrav1.WaitingForApprovalReason, infrav1.PlanRejectedReason, infrav1.ProtectedResourceReason,
	infrav1.LockHeldReason, infrav1.RunCanceledReason, infrav1.BackendChangedReason,
	infrav1.DeploymentPausedReason, infrav1.DriftDetectedReason, infrav1.HeldByOwnerReason,
}

// failures are the reasons of what went wrong.
var failures = []string{
	infrav1.RunFailedReason, infrav1.RetryingReason, infrav1.RunTimedOutReason, infrav1.StateTooLargeReason,
	infrav1.StateMissingReason, infrav1.SnapshotNotFoundReason, infrav1.DependencyCycleReason,
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
	addonsv1.ApplyFailedReason, addonsv1.TimedOutReason, addonsv1.ReleaseStalledReason, addonsv1.MissingKeyReason,
	addonsv1.InvalidTargetPathReason, addonsv1.VersionUnsupportedReason,
	clusterv1.InternalErrorReason, clusterv1.InvalidConditionReportedReason, clusterv1.ObjectDeletedReason,
}

// StateFor is the state of something that is not ready for a reason.
func StateFor(reason string) State {
	switch {
	case slices.Contains(attention, reason):
		return StateAttention
	case slices.Contains(failures, reason):
		return StateFailed
	default:
		return StateWaiting
	}
}

// stateOf is the state that a condition tells of.
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

// judge fills in how an object is, by its headline.
func judge(n *Node, obj client.Object) {
	c := headline(obj)
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
	}
	if c := pausedBy(obj); c != nil && n.State != StateReady {
		n.State, n.Reason, n.Since = StateAttention, clusterv1.PausedReason, c.LastTransitionTime
		n.Message = strings.TrimSpace("paused, nothing is done: " + n.Message)
	}
}

// pausedBy is the condition that tells that an object is paused, or nil.
func pausedBy(obj client.Object) *metav1.Condition {
	says, ok := obj.(conditioned)
	if !ok {
		return nil
	}
	if c := meta.FindStatusCondition(says.GetConditions(), clusterv1.PausedCondition); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

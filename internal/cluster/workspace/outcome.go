package workspace

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// terminalReasons are the reasons of a workspace's conditions that only a user can
// resolve.
var terminalReasons = map[string]bool{
	infrav1.RunFailedReason: true, infrav1.RunTimedOutReason: true, infrav1.RunCanceledReason: true,
	infrav1.ProtectedResourceReason: true, infrav1.PlanRejectedReason: true, infrav1.PolicyDeniedReason: true, infrav1.StateTooLargeReason: true,
	infrav1.StateMissingReason: true, infrav1.BackendChangedReason: true, infrav1.SnapshotNotFoundReason: true,
	infrav1.DependencyCycleReason: true, infrav1.SecretConflictReason: true, infrav1.InvalidOutputNameReason: true,
	infrav1.ModuleInvalidReason: true, infrav1.MissingVariableReason: true, infrav1.UnknownVariableReason: true,
	infrav1.InvalidVariableReason: true, infrav1.UnresolvedPlaceholderReason: true, infrav1.InvalidVarFileReason: true,
	infrav1.UnknownOutputReason: true, infrav1.StateForeignReason: true, infrav1.StateOutdatedReason: true,
	infrav1.InvalidStateCommandReason: true, infrav1.OutputsTooLargeReason: true, infrav1.ToolNotAvailableReason: true,
}

// Outcome returns nil if the current spec of a workspace is applied and its
// outputs are written. Otherwise it returns a wait, or a stall if a user has to
// act, with the message of the workspace.
func Outcome(apply *infrav1.WorkspaceTemplateApply) error {
	ready := conditions.Get(apply, clusterv1.ReadyCondition)
	switch {
	case !apply.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is being deleted and can no longer be changed", apply.Name)
	case conditions.IsTrue(apply, clusterv1.PausedCondition):
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is paused", apply.Name)
	case ready == nil || apply.Status.ObservedGeneration < apply.Generation || ready.ObservedGeneration < apply.Generation:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s has not been reconciled yet", apply.Name)
	case ready.Status == metav1.ConditionTrue:
		return nil
	case terminalReasons[ready.Reason]:
		return fault.Stall(infrav1.WorkspaceFailedReason, "WorkspaceTemplateApply %s: %s", apply.Name, ready.Message)
	default:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s: %s", apply.Name, ready.Message)
	}
}

// Applied reports whether the workspace was ever applied. Its outputs are then
// known, even while a change is being applied.
func Applied(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply != nil && len(apply.Status.Outputs) > 0
}

// Output decodes an output that is not sensitive into a value. It does not change
// the value if the output is missing or null.
func Output(apply *infrav1.WorkspaceTemplateApply, name string, into any) error {
	value, found := apply.Status.Outputs[name]
	if !found || string(value.Raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(value.Raw, into); err != nil {
		return fmt.Errorf("decoding output %s of WorkspaceTemplateApply %s: %w", name, apply.Name, err)
	}
	return nil
}

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

// troubles are the reasons of a workspace that only a person can end.
var troubles = map[string]bool{
	infrav1.RunFailedReason: true, infrav1.RunTimedOutReason: true, infrav1.RunCanceledReason: true,
	infrav1.ProtectedResourceReason: true, infrav1.PlanRejectedReason: true, infrav1.StateTooLargeReason: true,
	infrav1.StateMissingReason: true, infrav1.BackendChangedReason: true, infrav1.SnapshotNotFoundReason: true,
	infrav1.DependencyCycleReason: true, infrav1.SecretConflictReason: true, infrav1.InvalidOutputNameReason: true,
	infrav1.ModuleInvalidReason: true, infrav1.MissingVariableReason: true, infrav1.UnknownVariableReason: true,
	infrav1.InvalidVariableReason: true, infrav1.UnresolvedPlaceholderReason: true, infrav1.InvalidVarFileReason: true,
	infrav1.UnknownOutputReason: true,
}

// Outcome tells what has become of a workspace: nil when what it asks for now
// is applied and its outputs are written, a wait or a stall with its own words
// otherwise.
func Outcome(apply *infrav1.WorkspaceTemplateApply) error {
	ready := conditions.Get(apply, clusterv1.ReadyCondition)
	switch {
	case !apply.DeletionTimestamp.IsZero():
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s was deleted and can no longer be changed", apply.Name)
	case conditions.IsTrue(apply, clusterv1.PausedCondition):
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s is paused", apply.Name)
	case ready == nil || apply.Status.ObservedGeneration < apply.Generation || ready.ObservedGeneration < apply.Generation:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s has not been looked at yet", apply.Name)
	case ready.Status == metav1.ConditionTrue:
		return nil
	case troubles[ready.Reason]:
		return fault.Stall(infrav1.WorkspaceFailedReason, "WorkspaceTemplateApply %s: %s", apply.Name, ready.Message)
	default:
		return fault.Wait(infrav1.WaitingForWorkspaceReason, "WorkspaceTemplateApply %s: %s", apply.Name, ready.Message)
	}
}

// Applied tells whether the workspace was ever applied, so that its outputs
// are known even while a change is under way.
func Applied(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply != nil && len(apply.Status.Outputs) > 0
}

// Output reads an output that is not sensitive into a value. A missing or null
// output leaves it alone.
func Output(apply *infrav1.WorkspaceTemplateApply, name string, into any) error {
	value, found := apply.Status.Outputs[name]
	if !found || string(value.Raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(value.Raw, into); err != nil {
		return fmt.Errorf("output %s of WorkspaceTemplateApply %s is no %T: %w", name, apply.Name, into, err)
	}
	return nil
}

package captmachinepool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// The optional outputs of a pool's workspace.
const (
	providerIDOutput = "provider_id"
	selectorOutput   = "node_selector"
)

// The limits of the API.
const (
	maxProviderID = 512
	maxNodes      = 10000
)

// outputs are the outputs of a pool's workspace.
type outputs struct {
	// list are the sorted provider IDs of the nodes.
	list       []string
	providerID string
	// selector are the labels of the nodes.
	selector map[string]string
}

// readOutputs returns the outputs of a workspace. The status does not have a list of
// many nodes; the connection Secret does.
func (r *Reconciler) readOutputs(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (outputs, error) {
	if list, found := apply.Status.Outputs[desired.ProviderIDListOutput]; found {
		return outputsOf(apply, list.Raw)
	}
	connection, err := r.Workspaces.Connection(ctx, apply, infrav1.WaitingForWorkspaceReason)
	if err != nil {
		return outputs{}, err
	}
	return outputsOf(apply, connection[desired.ProviderIDListOutput])
}

// outputsOf returns the outputs of a workspace with a list of nodes. It stalls on
// values that the API would reject.
func outputsOf(apply *infrav1.WorkspaceTemplateApply, list []byte) (outputs, error) {
	o, err := decodeOutputs(apply, list)
	if err != nil {
		return outputs{}, fault.Stall(infrav1.MissingOutputReason, "WorkspaceTemplateApply %s: %w", apply.Name, err)
	}
	return o, nil
}

func decodeOutputs(apply *infrav1.WorkspaceTemplateApply, list []byte) (outputs, error) {
	var o outputs
	if len(list) == 0 || string(list) == "null" {
		return o, fmt.Errorf("output %s is null: it must be the list of the nodes' provider IDs", desired.ProviderIDListOutput)
	}
	if err := json.Unmarshal(list, &o.list); err != nil {
		return o, fmt.Errorf("decoding output %s: %w", desired.ProviderIDListOutput, err)
	}
	for name, into := range map[string]any{providerIDOutput: &o.providerID, selectorOutput: &o.selector} {
		if err := workspace.Output(apply, name, into); err != nil {
			return o, err
		}
	}
	slices.Sort(o.list)
	o.list = slices.Compact(o.list)
	if len(o.list) > maxNodes {
		return o, fmt.Errorf("output %s has more than %d entries", desired.ProviderIDListOutput, maxNodes)
	}
	for _, id := range append([]string{o.providerID}, o.list...) {
		if len(id) > maxProviderID {
			return o, fmt.Errorf("outputs %s and %s hold provider IDs of at most %d characters", desired.ProviderIDListOutput, providerIDOutput, maxProviderID)
		}
	}
	if slices.Contains(o.list, "") {
		return o, fmt.Errorf("output %s has an empty entry: omit unknown provider IDs", desired.ProviderIDListOutput)
	}
	return o, nil
}

package captmachinepool

import (
	"fmt"
	"slices"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
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

// outputsOf returns the outputs of a workspace. It returns an error for values that
// the API would reject.
func outputsOf(apply *infrav1.WorkspaceTemplateApply) (outputs, error) {
	var o outputs
	if value, found := apply.Status.Outputs[desired.ProviderIDListOutput]; !found || string(value.Raw) == "null" {
		return o, fmt.Errorf("output %s is null or sensitive: it must be the list of the nodes' provider IDs", desired.ProviderIDListOutput)
	}
	for name, into := range map[string]any{desired.ProviderIDListOutput: &o.list, providerIDOutput: &o.providerID, selectorOutput: &o.selector} {
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

package runner

import (
	"bytes"
	"encoding/json"

	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/statefile"
)

// rescuedState is a state that an earlier run stored in Secrets.
type rescuedState struct {
	command.UnsavedState
	// workspace is the UID of the workspace that left it.
	workspace string
}

// mayHaveLeft reports whether an earlier run of the workspace may have left a state,
// and not one of a deleted workspace of the same name. It decides only if the backend
// has no state.
func (run *execution) mayHaveLeft(state rescuedState) bool {
	left, err := statefile.Identify(state.Content)
	if err != nil || !run.request.State.Exists() {
		return false
	}
	if lineage := run.request.State.Lineage; lineage != "" {
		return lineage == left.Lineage
	}
	return state.workspace == run.request.Workspace.UID
}

// sameState reports whether two states are the same version of a state.
func sameState(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	x, xErr := statefile.Parse(a)
	y, yErr := statefile.Parse(b)
	return xErr == nil && yErr == nil && x.Lineage == y.Lineage && x.Serial == y.Serial && equalJSON(a, b)
}

func equalJSON(a, b []byte) bool {
	x, xErr := decodeNumbers(a)
	y, yErr := decodeNumbers(b)
	if xErr != nil || yErr != nil {
		return false
	}
	left, leftErr := json.Marshal(x)
	right, rightErr := json.Marshal(y)
	return leftErr == nil && rightErr == nil && string(left) == string(right)
}

// decodeNumbers decodes JSON without rounding its numbers.
func decodeNumbers(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// hasResources reports whether a state has resources. An encrypted or invalid state
// may have some.
func hasResources(content []byte) bool {
	state, err := statefile.Parse(content)
	return err != nil || state.Resources > 0
}

// sameResources reports whether two states have the same resources and outputs.
func sameResources(a, b []byte) bool {
	type content struct{ Resources, Outputs json.RawMessage }
	var x, y content
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return equalJSON(x.Resources, y.Resources) && equalJSON(x.Outputs, y.Outputs)
}

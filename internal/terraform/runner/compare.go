package runner

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/appthrust/capt/internal/terraform/statefile"
)

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
	return xErr == nil && yErr == nil && reflect.DeepEqual(x, y)
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

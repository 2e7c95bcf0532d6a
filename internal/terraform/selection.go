package terraform

import (
	"maps"
	"slices"
)

// Selection are selected outputs of a module: their names in the module by those under
// which they are returned. A nil Selection selects all.
type Selection map[string]string

// Sources returns the names of the selected outputs in the module.
func (s Selection) Sources() []string { return slices.Sorted(maps.Values(s)) }

// Select returns the selected ones of outputs, or of what is known about them, under the
// names of the selection.
func Select[T any](s Selection, outputs map[string]T) map[string]T {
	if s == nil {
		return outputs
	}
	selected := map[string]T{}
	for as, name := range s {
		if output, found := outputs[name]; found {
			selected[as] = output
		}
	}
	return selected
}

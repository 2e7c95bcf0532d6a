package template

import (
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/inspect"
)

// selectionOf returns the outputs that a template selects.
func selectionOf(t *infrav1.WorkspaceTemplate) terraform.Selection {
	outputs := t.Spec.Template.Spec.Outputs
	if len(outputs) == 0 {
		return nil
	}
	selection := terraform.Selection{}
	for _, o := range outputs {
		selection[o.Key()] = string(o.Name)
	}
	return selection
}

// requiredOutputs returns the outputs that the module must declare, with their names in the
// module: those that the workspace requires, and those that the template selects.
func (s Sources) requiredOutputs() ([]string, error) {
	required := s.Apply.Spec.RequiredOutputs
	selection := selectionOf(s.Template)
	if selection == nil {
		return required, nil
	}
	var missing []string
	for _, name := range required {
		if _, selected := selection[name]; !selected {
			missing = append(missing, name+message.Suggestion(name, slices.Sorted(maps.Keys(selection))))
		}
	}
	if len(missing) > 0 {
		return nil, problem(infrav1.UnknownOutputReason, "WorkspaceTemplate %s does not select the required outputs %s", s.Template.Name, strings.Join(missing, ", "))
	}
	return selection.Sources(), nil
}

// checkSelection returns what is wrong with the outputs that a template selects.
func checkSelection(m *inspect.Module, s terraform.Selection) []inspect.Problem {
	return slices.DeleteFunc(inspect.Check(m, nil, s.Sources()), func(p inspect.Problem) bool { return p.Kind != inspect.KindUnknownOutput })
}

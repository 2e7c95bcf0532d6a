package sources

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// RequirementsOf returns the requirements of the resources of a state.
func (s *Resolved) RequirementsOf(state *infrav1.StateStatus) *infrav1.StateRequirements {
	current, known := s.Apply.Spec.TemplateRef.Key(s.Apply.Namespace), state.Requirements
	switch {
	case !runs.InUse(state):
		return nil
	case known != nil && (known.TemplateRef == nil || runs.KeyOf(known.TemplateRef) != current):
		return known
	case s.Template.Name == "":
		// It does not exist any more.
		return known
	default:
		return template.RequirementsOf(s.Template)
	}
}

// Required returns what the template of a new run requires, or nil if the run creates nothing
// with it.
func (s *Resolved) Required(operation terraform.Operation) *infrav1.StateRequirements {
	if s.Sources.Template == nil || !runs.CreatesResources(operation) {
		return nil
	}
	return template.RequirementsOf(s.Sources.Template)
}

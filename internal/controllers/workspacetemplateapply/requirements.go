package workspacetemplateapply

import (
	"context"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/terraform/template"
)

// requirements keeps what the template of the existing resources requires in the status, and
// sets the policy of the next run. A user who may change the reference to the template, for
// example in the owner of the workspace, must not thereby switch approval or protection off:
// the requirements follow the template while it is used, and those of another one replace them
// only with an approved plan.
func (*Reconciler) requirements(_ context.Context, s *execution.Scope) error {
	if state := s.Apply.Status.State; state != nil {
		state.Requirements = s.RequirementsOf(state)
	}
	s.Policy = template.PolicyOf(template.Sources{Apply: s.Apply, Template: s.Template})
	return nil
}

package history

import (
	"encoding/json"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// RequirementsAnnotation is the annotation of a run with what its template required when the
// run was created.
const RequirementsAnnotation = "capt.appthrust.io/requirements"

// requiredBy returns what the template of a recorded run required, or nil.
func requiredBy(run *runs.Run) *infrav1.StateRequirements {
	text := run.Secret.Annotations[RequirementsAnnotation]
	if text == "" || !runs.CreatesResources(run.Operation()) {
		return nil
	}
	required := &infrav1.StateRequirements{}
	if err := json.Unmarshal([]byte(text), required); err != nil {
		return nil
	}
	return required
}

// recordRequirements records in the status what the template of a run that has ended
// requires. Until a user has approved a plan of the template, and it was applied, the known
// requirements hold as well, unless those of the template are as strict.
func (s *Status) recordRequirements(known *infrav1.StateRequirements, run *runs.Run, result *terraform.Result) {
	if known == nil {
		// The status was lost.
		previous, _ := s.PreviousState(run)
		known = runs.RequirementsIn(previous)
	}
	if required := requiredBy(run); required != nil {
		_, once := runs.ParseOneShotInputs(run.Inputs())
		approved := run.Operation() == terraform.OperationApply && !once
		succeeded := result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges
		if succeeded && (approved || template.Covers(required, known)) {
			known = required
		}
		known = template.MergeRequirements(known, required)
	}
	if state := s.Apply.Status.State; state != nil {
		state.Requirements = known
	}
}

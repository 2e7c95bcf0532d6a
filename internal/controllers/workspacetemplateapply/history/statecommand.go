package history

import (
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// recordCommands records which commands were handled before or by a run. A command is
// executed once, whatever the outcome: the user decides whether to repeat it.
func (s *Status) recordCommands(run *runs.Run) {
	status := &s.Apply.Status
	if handled := run.Secret.Annotations[record.CommandAnnotation]; handled != "" {
		status.HandledStateCommand = handled
	}
	if handled := run.Secret.Annotations[record.MovedAnnotation]; handled != "" {
		status.HandledMove = handled
	}
	for _, ended := range slices.Backward(strings.Fields(run.Secret.Annotations[record.HandledOneShotAnnotation])) {
		status.EndOneShot(ended)
	}
	if command, ok := runs.ParseCommandInputs(run.Inputs()); ok && run.Operation() == terraform.OperationStateCommand {
		status.HandledStateCommand = command.ID
	}
}

package execution

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// runRequest returns the one-shot operation of a run for its record.
func runRequest(apply *infrav1.WorkspaceTemplateApply, operation *terraform.OneShot) *infrav1.RunRequest {
	return &infrav1.RunRequest{
		ID: operation.ID, Arguments: message.Truncate(message.OneLine(operation.Arguments()), history.MaxSummary),
		RequestedBy: message.Truncate(message.OneLine(infrav1.RequesterOf(apply, operation.ID)), history.MaxUserName),
	}
}

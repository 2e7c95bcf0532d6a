package history

import (
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/message"
)

// Limits of what the status has of an approval, in bytes.
const (
	MaxUserName = 256
	maxComment  = 1024
)

// RecordApproval records in the status who approved the plan, when, and with which comment.
// The webhook of the workspace writes the annotation.
func RecordApproval(recorder events.EventRecorder, apply *infrav1.WorkspaceTemplateApply) {
	plan, approval := apply.Status.Plan, infrav1.ApprovalOf(apply)
	if plan == nil {
		return
	}
	isNew := decision.IsWaiting(plan) && plan.ApprovedBy == ""
	plan.ApprovedBy, plan.ApprovedAt = "", nil
	plan.Comment = message.Truncate(message.OneLine(infrav1.CommentOf(apply, plan.ID)), maxComment)
	if approval == nil || approval.Plan != plan.ID || approval.By == "" {
		return
	}
	plan.ApprovedBy, plan.ApprovedAt = message.Truncate(approval.By, MaxUserName), &approval.At
	if isNew {
		planApproved(plan).Record(recorder, apply, nil)
	}
}

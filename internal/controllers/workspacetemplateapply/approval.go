package workspacetemplateapply

import (
	"fmt"

	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// Limits of what the status has of an approval, in bytes.
const (
	maxUserName = 256
	maxComment  = 1024
)

// recordApproval records in the status who approved the plan, when, and with which comment.
// The webhook of the workspace writes the annotation.
func recordApproval(recorder events.EventRecorder, apply *infrav1.WorkspaceTemplateApply) {
	plan, approval := apply.Status.Plan, infrav1.ApprovalOf(apply)
	if plan == nil {
		return
	}
	isNew := isWaiting(plan) && plan.ApprovedBy == ""
	plan.ApprovedBy, plan.ApprovedAt = "", nil
	plan.Comment = message.Truncate(message.OneLine(infrav1.CommentOf(apply, plan.ID)), maxComment)
	if approval == nil || approval.Plan != plan.ID || approval.By == "" {
		return
	}
	plan.ApprovedBy, plan.ApprovedAt = message.Truncate(approval.By, maxUserName), &approval.At
	if isNew {
		planApproved(plan).Record(recorder, apply, nil)
	}
}

// maxQuote is the size of a comment in messages, in bytes.
const maxQuote = 256

// quoted returns a comment as the continuation of a message.
func quoted(comment string) string {
	if comment == "" {
		return ""
	}
	return fmt.Sprintf(" with the comment %q", message.Truncate(comment, maxQuote))
}

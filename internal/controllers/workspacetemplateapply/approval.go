package workspacetemplateapply

import (
	"context"
	"fmt"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// Limits of what the status has of an approval, in bytes.
const (
	maxUserName = 256
	maxComment  = 1024
)

// approval records in the status who approved the plan, when, and with which comment. The
// webhook of the workspace writes the annotation.
func (r *Reconciler) approval(_ context.Context, s *scope) error {
	plan, approval := s.apply.Status.Plan, infrav1.ApprovalOf(s.apply)
	if plan == nil {
		return nil
	}
	isNew := isWaiting(plan) && plan.ApprovedBy == ""
	plan.ApprovedBy, plan.ApprovedAt = "", nil
	plan.Comment = message.Truncate(message.OneLine(infrav1.CommentOf(s.apply, plan.ID)), maxComment)
	if approval == nil || approval.Plan != plan.ID || approval.By == "" {
		return nil
	}
	plan.ApprovedBy, plan.ApprovedAt = message.Truncate(approval.By, maxUserName), &approval.At
	if isNew {
		planApproved(plan).Record(r.Recorder, s.apply, nil)
	}
	return nil
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

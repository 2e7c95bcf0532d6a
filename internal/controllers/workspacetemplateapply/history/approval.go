package history

import (
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
)

// Limits of what the status has of an approval, in bytes.
const (
	MaxUserName = 256
	maxComment  = 1024
)

// RecordApproval records in the status who approved the plan, when, and with which comment.
// Admission has written who it was into the WorkspaceApproval, or into an annotation of the
// workspace if it is spec.approvedPlan.
func RecordApproval(recorder events.EventRecorder, s *runs.Workspace) {
	apply := s.Apply
	plan, approval := apply.Status.Plan, infrav1.ApprovalOf(apply)
	if plan == nil {
		return
	}
	isNew := plan.IsWaiting() && plan.ApprovedBy == ""
	plan.ApprovedBy, plan.ApprovedAt = "", nil
	plan.Comment = ""
	if d := s.Requests.Decision(plan.ID); d != nil {
		plan.Comment = message.Truncate(message.OneLine(d.Spec.Comment), maxComment)
		approval = nil
		if d.Spec.Decision == infrav1.DecisionApprove {
			approval = &infrav1.Approval{Plan: plan.ID, At: d.CreationTimestamp, By: d.Spec.DecidedBy}
		}
	}
	if approval == nil || approval.Plan != plan.ID || approval.By == "" {
		return
	}
	plan.ApprovedBy, plan.ApprovedAt = message.Truncate(approval.By, MaxUserName), &approval.At
	if isNew {
		planApproved(plan).Record(recorder, apply, nil)
	}
}

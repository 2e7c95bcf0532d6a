package workspacetemplateapply

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
)

// maxUserName is the size of the name of an approver in the status, in bytes.
const maxUserName = 256

// approval records in the status who approved the plan, and when. The webhook of the
// workspace writes the annotation.
func (r *Reconciler) approval(_ context.Context, s *scope) error {
	plan, approval := s.apply.Status.Plan, infrav1.ApprovalOf(s.apply)
	if plan == nil {
		return nil
	}
	isNew := isWaiting(plan) && plan.ApprovedBy == ""
	plan.ApprovedBy, plan.ApprovedAt = "", nil
	if approval == nil || approval.Plan != plan.ID || approval.By == "" {
		return nil
	}
	plan.ApprovedBy, plan.ApprovedAt = message.Truncate(approval.By, maxUserName), &approval.At
	if isNew {
		r.Recorder.Eventf(s.apply, nil, corev1.EventTypeNormal, infrav1.PlanApprovedReason, "Approve", "%s approved plan %s (%s)", plan.ApprovedBy, plan.ID, planSummary(plan))
	}
	return nil
}

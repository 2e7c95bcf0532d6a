package execution

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
)

// destroyApproved reports whether the plan of the deletion that waits is approved.
func (s *Scope) destroyApproved() bool {
	plan := s.Apply.Status.Plan
	return decision.IsDestroyPlan(plan) && s.Apply.Spec.ApprovedPlan == plan.ID && s.Apply.Annotations[infrav1.RejectPlanAnnotation] != plan.ID
}

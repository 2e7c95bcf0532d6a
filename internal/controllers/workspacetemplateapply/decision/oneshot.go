package decision

import (
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// decideOneShot returns the run of a one-shot operation that the user requested. It precedes
// the runs of the inputs.
func (s Situation) decideOneShot() (Decision, error) {
	if s.OneShot == nil {
		return NoRun, nil
	}
	waits := s.Plan.IsWaiting() && s.Plan.Inputs == runs.OneShotInputs(s.OneShot, s.Inputs)
	switch {
	case !waits || s.Plan.PolicyDigest != s.Policies:
		operation := terraform.OperationPlanAndApply
		if s.OneShot.PlanOnly || s.OneShot.Hold || s.Policy.Approval == infrav1.ApprovalManual {
			operation = terraform.OperationPlan
		}
		return Decision{Operation: operation, OneShot: true}, nil
	case s.ApprovedPlan != s.Plan.ID:
		return NoRun, fault.Wait(infrav1.WaitingForApprovalReason, "Plan %s (%s) of the one-shot operation %s waits for approval: approve or reject it with captctl, a WorkspaceApproval or spec.approvedPlan%s",
			s.Plan.ID, PlanSummary(s.Plan), message.Truncate(s.OneShot.Arguments(), MaxQuote), approvalCause(s.Plan))
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return NoRun, s.protectedFault(blocked)
	}
	return Decision{Operation: terraform.OperationApply, Plan: s.Plan.ID, OneShot: true}, nil
}

// Refusal returns why the one-shot operation that the user requested is not executed, or an
// empty string.
func (s Situation) Refusal() string {
	switch {
	case s.OneShot == nil:
		return ""
	case s.OneShot.RefreshOnly && !s.OneShot.PlanOnly && s.Inputs != s.AppliedInputs:
		// Policies have not decided about these inputs, which may read other resources, in
		// another region for example. The outputs would be theirs.
		return "The inputs are not applied: apply them or change them back, then refresh the state"
	default:
		return ""
	}
}

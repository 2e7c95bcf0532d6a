package decision

import (
	"strings"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// NextDestroy returns the destroy run, or a fault that explains why it does not
// start. A request of the user overrides failures. What the user requested for the
// state comes first: it may be missing, outdated or unreadable.
func NextDestroy(s Situation) (Decision, error) {
	if next, err := s.decideBackend(); err != nil || next != NoRun {
		return next, err
	}
	next, err := s.decideStateChange()
	if stalled, ok := fault.AsStalled(err); ok {
		return NoRun, fault.Stall(stalled.Reason, "%s. To destroy without restoring the snapshot, delete the WorkspaceOperation that requests it", strings.TrimSuffix(stalled.Message(), "."))
	}
	if err != nil || next != NoRun {
		return next, err
	}
	if decided := IsDestroyPlan(s.Plan) && (s.Plan.PolicyDigest == s.Policies || s.RejectedPlan == s.Plan.ID); decided && !s.Requested {
		switch s.Plan.PolicyAction {
		case infrav1.PolicyDeny:
			return NoRun, deniedFault(s.Plan, "Deletion is held", s.keepHint())
		case infrav1.PolicyRequireApproval:
			return s.decideManualDestroy()
		}
	}
	if s.Policy.DestroyApproval == infrav1.ApprovalManual {
		return s.decideManualDestroy()
	}
	destroy := Decision{Operation: terraform.OperationDestroy}
	if s.Requested {
		return destroy, nil
	}
	return s.Attempt(destroy, runs.DestroyInputs)
}

// decideManualDestroy decides for destroyApproval: Manual, from the plan to approval to
// the destruction.
func (s Situation) decideManualDestroy() (Decision, error) {
	plan := Decision{Operation: terraform.OperationPlanDestroy}
	switch {
	case s.Requested:
		return plan, nil
	case !IsDestroyPlan(s.Plan), s.Plan.PolicyDigest != s.Policies && s.RejectedPlan != s.Plan.ID:
		return s.Attempt(plan, runs.DestroyInputs)
	case s.RejectedPlan == s.Plan.ID:
		return NoRun, fault.Stall(infrav1.PlanRejectedReason, "Deletion is held: plan %s was rejected%s. Request another plan with captctl reconcile%s", s.Plan.ID, Quoted(s.Plan.Comment), s.keepHint())
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return NoRun, fault.Stall(infrav1.ProtectedResourceReason, "Deletion is held: plan %s would destroy protected resources, or does not find them: %s. Allow it with captctl approve --allow-destroy, or with a WorkspaceApproval that has them in allowDestroy%s%s",
			s.Plan.ID, strings.Join(blocked, ", "), s.keepHint(), s.Former.Protect)
	}
	if s.ApprovedPlan != s.Plan.ID {
		return NoRun, fault.Wait(infrav1.WaitingForApprovalReason, "Deletion waits: plan %s would destroy %d resources. Approve it with captctl approve, a WorkspaceApproval or spec.approvedPlan%s%s%s",
			s.Plan.ID, s.Plan.Destroy, s.keepHint(), approvalCause(s.Plan), s.Former.DestroyApproval)
	}
	return s.Attempt(Decision{Operation: terraform.OperationApplyDestroy, Plan: s.Plan.ID}, runs.DestroyInputs)
}

// keepHint returns how a user keeps the resources. The owner of a workspace decides that
// in another field.
func (s Situation) keepHint() string {
	if s.IsOwned {
		return ""
	}
	return ". To keep the resources, set retainWorkspaceOnDelete: true"
}

// IsDestroyPlan reports whether a plan of a deletion waits for a decision.
func IsDestroyPlan(plan *infrav1.PlanStatus) bool {
	return plan != nil && plan.Inputs == runs.DestroyInputs && plan.IsWaiting()
}

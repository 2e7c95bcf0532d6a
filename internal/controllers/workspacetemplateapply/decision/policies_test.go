package decision

import (
	"testing"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	_ "github.com/appthrust/capt/internal/testenv/waits"
)

func decidedBy(action infrav1.PolicyAction, digest string) func(*Situation) {
	return func(s *Situation) {
		waitingPlan(s)
		s.Plan.PolicyAction, s.Plan.PolicyDigest = action, digest
		s.Plan.Violations = []infrav1.PolicyViolation{{Kind: "WorkspacePolicy", Policy: "guard", Rule: "keep", Action: action, Message: "No."}}
		s.Policies = "p1"
	}
}

func TestDecide_followsPolicies(t *testing.T) {
	rejected := func(s *Situation) { s.RejectedPlan = planID }
	for _, e := range []expectation{
		{
			name: "a denied plan waits for a change", situation: upToDate(changed, decidedBy(infrav1.PolicyDeny, "p1")),
			reason: infrav1.PolicyDeniedReason, stalled: true, contains: []string{"WorkspacePolicy guard, rule keep: No"},
		},
		{
			name: "also with approval", situation: upToDate(changed, manual, decidedBy(infrav1.PolicyDeny, "p1"), approved),
			reason: infrav1.PolicyDeniedReason, stalled: true,
		},
		{name: "other inputs are planned", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p1"), func(s *Situation) { s.Inputs = "other" }), want: terraform.OperationPlanAndApply},
		{name: "a request is planned", situation: upToDate(changed, decidedBy(infrav1.PolicyDeny, "p1"), requested), want: terraform.OperationPlanAndApply},
		{name: "other policies decide again", situation: upToDate(changed, decidedBy(infrav1.PolicyDeny, "p0")), want: terraform.OperationPlanAndApply},
		{name: "removed policies decide again", situation: upToDate(changed, decidedBy(infrav1.PolicyDeny, "p1"), func(s *Situation) { s.Policies = "" }), want: terraform.OperationPlanAndApply},
		{
			name: "a plan that requires approval waits", situation: upToDate(changed, decidedBy(infrav1.PolicyRequireApproval, "p1")),
			reason: infrav1.WaitingForApprovalReason, contains: []string{planID, "Required by WorkspacePolicy guard, rule keep: No"},
		},
		{name: "and is applied when it is approved", situation: upToDate(changed, decidedBy(infrav1.PolicyRequireApproval, "p1"), approved), want: terraform.OperationApply, plan: planID},
		{
			name: "or not if it is rejected", situation: upToDate(changed, decidedBy(infrav1.PolicyRequireApproval, "p1"), rejected),
			reason: infrav1.PlanRejectedReason, stalled: true,
		},
		{name: "an approval does not count for other policies", situation: upToDate(changed, decidedBy(infrav1.PolicyRequireApproval, "p0"), approved), want: terraform.OperationPlanAndApply},
		{name: "a manual plan is made again for other policies", situation: upToDate(changed, manual, decidedBy(infrav1.PolicyWarn, "p0"), approved), want: terraform.OperationPlan},
		{
			name: "a rejected plan stays rejected", situation: upToDate(changed, manual, decidedBy(infrav1.PolicyWarn, "p0"), rejected),
			reason: infrav1.PlanRejectedReason, stalled: true,
		},
		{name: "policies start no run of an applied workspace", situation: upToDate(func(s *Situation) { s.Policies = "p2" })},
		{name: "nor after an applied plan", situation: upToDate(decidedBy(infrav1.PolicyWarn, "p0"), func(s *Situation) { s.Plan.Waiting = nil })},
		{name: "a plan for applied inputs is made again, too", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p0")), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecideDestroy_followsPolicies(t *testing.T) {
	destroys := func(s *Situation) { s.Plan.Inputs, s.Plan.Destroy = runs.DestroyInputs, 4 }
	manualDestroy := func(s *Situation) { s.Policy.DestroyApproval = infrav1.ApprovalManual }
	for _, e := range []expectation{
		{
			name: "a policy denies the destruction", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p1"), destroys),
			reason: infrav1.PolicyDeniedReason, stalled: true, contains: []string{"Deletion is held", "rule keep", "retainWorkspaceOnDelete"},
		},
		{
			name: "also if it is approved", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p1"), destroys, manualDestroy, approved),
			reason: infrav1.PolicyDeniedReason, stalled: true,
		},
		{
			name: "a policy requires approval", situation: upToDate(decidedBy(infrav1.PolicyRequireApproval, "p1"), destroys),
			reason: infrav1.WaitingForApprovalReason, contains: []string{"4 resources", "Required by WorkspacePolicy guard"},
		},
		{name: "approved", situation: upToDate(decidedBy(infrav1.PolicyRequireApproval, "p1"), destroys, approved), want: terraform.OperationApplyDestroy, plan: planID},
		{name: "other policies decide again", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p0"), destroys, approved), want: terraform.OperationDestroy},
		{name: "other policies decide about a manual destruction", situation: upToDate(decidedBy(infrav1.PolicyWarn, "p0"), destroys, manualDestroy, approved), want: terraform.OperationPlanDestroy},
		{
			name: "a rejected destruction stays rejected", situation: upToDate(decidedBy(infrav1.PolicyRequireApproval, "p0"), destroys, func(s *Situation) { s.RejectedPlan = planID }),
			reason: infrav1.PlanRejectedReason, stalled: true,
		},
		{name: "a request decides again", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p1"), destroys, requested), want: terraform.OperationDestroy},
		{name: "the plan of an apply does not count", situation: upToDate(decidedBy(infrav1.PolicyDeny, "p1")), want: terraform.OperationDestroy},
	} {
		t.Run(e.name, func(t *testing.T) { e.verify(t, NextDestroy) })
	}
}

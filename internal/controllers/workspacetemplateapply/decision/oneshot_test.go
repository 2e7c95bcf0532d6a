package decision

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

func TestDecide_executesAOneShotOperation(t *testing.T) {
	request := func(change ...func(*terraform.OneShot)) func(*Situation) {
		return func(s *Situation) {
			s.OneShot = &terraform.OneShot{ID: "1", Replace: []string{"a.b"}}
			for _, c := range change {
				c(s.OneShot)
			}
		}
	}
	hold := func(o *terraform.OneShot) { o.Hold = true }
	planOnly := func(o *terraform.OneShot) { o.PlanOnly = true }
	waiting := func(s *Situation) {
		s.Plan = &infrav1.PlanStatus{ID: planID, Inputs: runs.OneShotInputs(s.OneShot, s.Inputs), Waiting: new(true)}
	}
	blocked := func(s *Situation) { s.Protect, s.Plan.Blocked = []string{"a.b"}, []string{"a.b"} }
	for _, e := range []expectation{
		{name: "up to date", situation: upToDate(request()), want: terraform.OperationPlanAndApply},
		{name: "before a change", situation: upToDate(request(), changed), want: terraform.OperationPlanAndApply},
		{name: "after a run that failed", situation: upToDate(request(), changed, failedForGood), want: terraform.OperationPlanAndApply},
		{name: "instead of a plan of the inputs", situation: upToDate(request(), manual, waitingPlan, approved), want: terraform.OperationPlan},
		{name: "after a state command", situation: upToDate(request(), func(s *Situation) { s.Command = &terraform.StateCommand{ID: "2"} }), want: terraform.OperationStateCommand},
		{name: "with approval", situation: upToDate(request(), manual), want: terraform.OperationPlan},
		{name: "held", situation: upToDate(request(hold)), want: terraform.OperationPlan},
		{name: "only planned", situation: upToDate(request(planOnly)), want: terraform.OperationPlan},
		{name: "waits", situation: upToDate(request(hold), waiting, changed), reason: infrav1.WaitingForApprovalReason, contains: []string{planID, "--replace a.b --hold"}},
		{name: "approved", situation: upToDate(request(hold), waiting, approved), want: terraform.OperationApply, plan: planID},
		{name: "approved, but protected", situation: upToDate(request(hold), waiting, approved, blocked, changed), reason: infrav1.ProtectedResourceReason, stalled: true},
		{name: "approved and released", situation: upToDate(request(hold), waiting, approved, blocked, release("a.b")), want: terraform.OperationApply, plan: planID},
		{name: "approved, but other policies", situation: upToDate(request(hold), waiting, approved, func(s *Situation) { s.Policies = "new" }), want: terraform.OperationPlan},
	} {
		e.oneShot = e.want != "" && e.want != terraform.OperationStateCommand
		t.Run(e.name, e.run)
	}
	for _, e := range []expectation{
		{name: "applied inputs stay applied while it waits", situation: upToDate(request(hold), waiting)},
		{name: "applied inputs stay applied while it is protected", situation: upToDate(request(hold), waiting, approved, blocked)},
		{name: "drift is checked while it waits", situation: upToDate(request(hold), waiting, driftCheckRequested), want: terraform.OperationCheckDrift},
	} {
		t.Run(e.name, e.run)
	}
}

func TestRefusal(t *testing.T) {
	g := NewWithT(t)
	s := upToDate()
	g.Expect(s.Refusal()).To(BeEmpty())
	s.OneShot = &terraform.OneShot{ID: "1", Replace: []string{"a.b"}}
	g.Expect(s.Refusal()).To(BeEmpty())
	s.OneShot = &terraform.OneShot{ID: "1", RefreshOnly: true}
	g.Expect(s.Refusal()).To(BeEmpty())
	s.AppliedInputs = "before"
	g.Expect(s.Refusal()).To(HavePrefix("The inputs are not applied"), "no policy has decided about them")
	s.OneShot.PlanOnly = true
	g.Expect(s.Refusal()).To(BeEmpty())
}

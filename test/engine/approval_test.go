package engine

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func manual(s *infrav1.WorkspaceTemplateApplySpec) { s.Approval = infrav1.ApprovalManual }

func TestApproval_appliesExactlyTheApprovedPlan(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	w.apply("hello", "greeting", manual, variables(map[string]string{"name": "world"}))

	waiting := w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan
	w.Expect(waiting.Message).To(ContainSubstring(plan.ID))
	w.Expect(waiting.Message).To(ContainSubstring("1 to add"))
	w.Expect(plan.Changes).To(ConsistOf(infrav1.ResourceChange{Address: "terraform_data.greeting", Action: "create"}))
	w.Expect(w.secrets()).NotTo(ContainElement("hello-connection"), "nothing is applied before it is approved")

	// Other inputs result in another plan, so the approval of the first is void.
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("moon") })
	w.Eventually(func() string { return w.get("hello").Status.Plan.ID }, testTimeout).ShouldNot(Equal(plan.ID))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan.ID })
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)

	second := w.get("hello").Status.Plan.ID
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = second })
	a := w.waitReady("hello")
	w.Expect(a.Status.Outputs["greeting"].String()).To(Equal("hello moon"))
	w.Expect(a.Status.History[0].Operation).To(BeEquivalentTo("Apply"))
	for _, name := range w.secrets() {
		w.Expect(name).To(Or(Not(HavePrefix("capt-plan-")), HaveSuffix("-changes-0")), "an applied plan is not kept")
	}
}

func TestApproval_aRejectedPlanIsReplacedOnRequest(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	w.apply("hello", "greeting", manual, variables(map[string]string{"name": "world"}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	first := w.get("hello").Status.Plan.ID

	w.decide("hello", first, infrav1.DecisionReject)
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.PlanRejectedReason)

	requested := w.requestRun("hello")
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.get("hello").Status.Plan.ID).NotTo(Equal(first))
	w.waitPhase(requested, infrav1.OperationSucceeded)
}

func TestApproval_aStalePlanIsReplaced(t *testing.T) {
	w := newHarness(t)
	w.hello("greeting", greeting, variables(map[string]string{"name": "world"}))

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Approval = infrav1.ApprovalManual
		a.Spec.Variables["name"] = infrav1.StringValue("moon")
	})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan.ID

	// Another tool changes the state after the plan was created.
	w.bumpState("hello")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })

	w.waitReplaced("hello", plan, infrav1.AppliedCondition)
	w.Expect(w.get("hello").Status.Outputs["greeting"].String()).To(Equal("hello world"), "the stale plan was not applied")
}

const replaceable = `
variable "name" { type = string }
resource "terraform_data" "precious" {
  input            = var.name
  triggers_replace = var.name
}
resource "terraform_data" "cheap" { triggers_replace = var.name }
`

func TestProtect_blocksUntilTheUserNamesTheAddress(t *testing.T) {
	w := newHarness(t)
	w.template("replaceable", replaceable, func(s *infrav1.WorkspaceSpec) {
		s.Protect = []infrav1.ProtectPattern{"terraform_data.precious"}
	})
	w.apply("hello", "replaceable", variables(map[string]string{"name": "one"}))
	w.waitReady("hello")

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("two") })
	blocked := w.waitReason("hello", infrav1.AppliedCondition, infrav1.ProtectedResourceReason)
	w.Expect(blocked.Message).To(ContainSubstring("terraform_data.precious"))
	w.Expect(blocked.Message).To(ContainSubstring("captctl approve --allow-destroy"))
	w.Expect(blocked.Message).NotTo(ContainSubstring("cheap"))
	w.Expect(w.get("hello").Status.Plan.Blocked).To(ConsistOf("terraform_data.precious"))

	w.allowDestroy("hello", "terraform_data.precious")
	a := w.waitReady("hello")
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("Succeeded"))

	w.destroy("hello")
}

package workspacetemplateapply

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

const (
	prodPlan = "plan-00000000000000aa"
	devPlan  = "plan-00000000000000bb"
)

// guarded is what the template prod requires.
var guarded = &infrav1.StateRequirements{
	TemplateRef: &infrav1.ObjectReference{Namespace: "n", Name: "prod"},
	Approval:    infrav1.ApprovalManual, DestroyApproval: infrav1.ApprovalManual, Protect: []infrav1.ProtectPattern{"aws_vpc"},
}

// newProdController returns a workspace that was applied with the template prod, which
// requires approval and protects resources. The template dev requires nothing.
func newProdController(t *testing.T, change ...func(prod, dev *infrav1.WorkspaceTemplate)) *testController {
	prod, dev := newTemplate(), newTemplate()
	prod.Name, dev.Name = "prod", "dev"
	spec := &prod.Spec.Template.Spec
	spec.Approval, spec.DestroyApproval, spec.Protect = guarded.Approval, guarded.DestroyApproval, guarded.Protect
	dev.Spec.Template.Spec.ForProvider.Module = "output \"id\" { value = \"vpc-2\" }\n"
	for _, change := range change {
		change(prod, dev)
	}
	c := newTestController(t, append(values(), prod, dev, newApply(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "prod" }))...)
	c.approveNext("hello-r1", prodPlan)
	c.finish("hello-r2", outputsResult)
	c.reconcile()
	c.expect(infrav1.AppliedCondition, "True Applied")
	return c
}

// approveNext lets a run plan, and approves the plan.
func (c *testController) approveNext(id, plan string) {
	c.t.Helper()
	c.planNext(id, plan)
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	c.reconcile()
	c.Expect(c.started[len(c.started)-1]).NotTo(Equal(id), "the plan is applied")
}

// planNext lets a run plan that protects the given resources, and returns why the plan waits.
func (c *testController) planNext(id, plan string, protects ...string) string {
	c.t.Helper()
	c.reconcile()
	c.Expect(c.started).To(ContainElement(id))
	c.Expect(c.operation(id)).To(Equal(terraform.OperationPlan))
	c.Expect(c.protected(id)).To(ContainElements(protects))
	c.finish(id, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: &terraform.PlanSummary{ID: plan, Destroy: 1}, State: c.stateInfo()})
	c.reconcile()
	return c.expect(infrav1.AppliedCondition, "False WaitingForApproval")
}

// stateInfo returns what a run that changes nothing reports about the state.
func (c *testController) stateInfo() terraform.StateInfo {
	if state := c.get().Status.State; state != nil {
		return runs.StateInfo(state)
	}
	return terraform.StateInfo{}
}

func (c *testController) operation(id string) terraform.Operation {
	return terraform.Operation(c.runSecret(id).Annotations[record.OperationAnnotation])
}

func (c *testController) protected(id string) []string {
	c.t.Helper()
	request, err := record.Request(c.runSecret(id))
	c.Expect(err).NotTo(HaveOccurred())
	return request.Protect
}

// use gives the workspace another template, as its owner does.
func (c *testController) use(name string) {
	c.t.Helper()
	c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name, a.Spec.ApprovedPlan = name, "" })
}

// An editor may change the reference to the template in the owner of the workspace.
func TestRequirements_anotherTemplateDoesNotSwitchApprovalOff(t *testing.T) {
	for name, prepare := range map[string]func(*testController){
		"the template exists": func(*testController) {},
		"the template was changed and deleted": func(c *testController) {
			c.use("dev")
			c.Expect(c.server.Delete(t.Context(), &infrav1.WorkspaceTemplate{ObjectMeta: objectMeta("prod")})).To(Succeed())
		},
		"the status was lost": func(c *testController) {
			apply := c.get()
			apply.Status = infrav1.WorkspaceTemplateApplyStatus{Conditions: apply.Status.Conditions}
			c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newProdController(t)
			c.Expect(c.get().Status.State.Requirements).To(Equal(guarded))
			prepare(c)
			c.use("dev")
			message := c.planNext("hello-r3", devPlan, "aws_vpc")
			c.Expect(message).To(ContainSubstring("WorkspaceTemplate n/prod, which was applied before, requires the approval. When the plan is applied, only the requirements of n/dev count"))

			t.Log("the approved plan replaces the requirements")
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = devPlan })
			c.reconcile()
			c.Expect(c.operation("hello-r4")).To(Equal(terraform.OperationApply))
			c.finish("hello-r4", outputsResult)
			c.reconcile()
			c.expect(infrav1.AppliedCondition, "True Applied")
			c.Expect(c.get().Status.State.Requirements).To(Equal(&infrav1.StateRequirements{TemplateRef: &infrav1.ObjectReference{Namespace: "n", Name: "dev"}}))
			c.request(newRunOperation("now"))
			c.reconcile()
			c.Expect(c.operation("hello-r5")).To(Equal(terraform.OperationPlanAndApply))
			c.Expect(c.protected("hello-r5")).To(BeEmpty())
		})
	}
}

func TestRequirements_anotherTemplateDoesNotDestroyWithoutApproval(t *testing.T) {
	sameModule := func(prod, dev *infrav1.WorkspaceTemplate) {
		dev.Spec.Template.Spec.ForProvider = prod.Spec.Template.Spec.ForProvider
	}
	for name, tt := range map[string]struct {
		change func(prod, dev *infrav1.WorkspaceTemplate)
		use    func(*testController)
	}{
		"at once": {func(_, _ *infrav1.WorkspaceTemplate) {}, func(*testController) {}},
		"after a plan without changes": {sameModule, func(c *testController) {
			c.request(newRunOperation("now"))
			c.reconcile()
			c.finish("hello-r3", terraform.Result{Outcome: terraform.OutcomeNoChanges, State: c.stateInfo()})
			c.reconcile()
			c.expect(infrav1.AppliedCondition, "True Applied")
		}},
		"after an apply, if only the deletion needs approval": {func(prod, _ *infrav1.WorkspaceTemplate) {}, func(c *testController) {
			// The workspace of a template that does not require the approval of plans.
			apply := c.get()
			apply.Status.State.Requirements.Approval = ""
			c.Expect(c.server.Status().Update(t.Context(), apply)).To(Succeed())
			c.reconcile()
			c.Expect(c.operation("hello-r3")).To(Equal(terraform.OperationPlanAndApply))
			c.Expect(c.protected("hello-r3")).To(ConsistOf("aws_vpc"))
			c.finish("hello-r3", outputsResult)
			c.reconcile()
			c.expect(infrav1.AppliedCondition, "True Applied")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newProdController(t, tt.change)
			c.use("dev")
			tt.use(c)
			c.Expect(c.server.Delete(t.Context(), c.get())).To(Succeed())
			c.reconcile()
			last := c.started[len(c.started)-1]
			c.Expect(c.operation(last)).To(Equal(terraform.OperationPlanDestroy))
			c.finish(last, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: &terraform.PlanSummary{ID: devPlan, Destroy: 1}, State: c.stateInfo()})
			c.reconcile()
			c.Expect(c.expect(infrav1.DestroyedCondition, "False WaitingForApproval")).To(ContainSubstring("requires the approval, because no plan of n/dev was approved since"))
			c.change(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = devPlan })
			c.reconcile()
			c.Expect(c.operation(c.started[len(c.started)-1])).To(Equal(terraform.OperationApplyDestroy), "an approver can destroy")
		})
	}
}

// A plan that failed halfway leaves resources of both templates.
func TestRequirements_failedApplyKeepsThoseOfBothTemplates(t *testing.T) {
	c := newProdController(t, func(_, dev *infrav1.WorkspaceTemplate) {
		dev.Spec.Template.Spec.Protect = []infrav1.ProtectPattern{"aws_db_instance"}
	})
	c.use("dev")
	c.approveNext("hello-r3", devPlan)
	c.finish("hello-r4", terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, State: terraform.StateInfo{Lineage: "l", Serial: 2, Resources: 1}})
	c.reconcile()
	want := guarded.DeepCopy()
	want.TemplateRef, want.Protect = nil, []infrav1.ProtectPattern{"aws_db_instance", "aws_vpc"}
	c.Expect(c.get().Status.State.Requirements).To(Equal(want))
	for _, name := range []string{"dev", "prod"} {
		c.use(name)
		c.reconcile()
		c.Expect(c.get().Status.State.Requirements).To(Equal(want), name)
	}
}

// While a template is used, the platform team decides what it requires.
func TestRequirements_followTheTemplate(t *testing.T) {
	c := newProdController(t)
	prod := &infrav1.WorkspaceTemplate{}
	c.Expect(c.server.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "prod"}, prod)).To(Succeed())
	spec := &prod.Spec.Template.Spec
	spec.Approval, spec.DestroyApproval, spec.Protect = "", "", nil
	spec.ForProvider.Module += "output \"more\" { value = \"x\" }\n"
	c.Expect(c.server.Update(t.Context(), prod)).To(Succeed())
	c.reconcile()
	c.Expect(c.operation("hello-r3")).To(Equal(terraform.OperationPlanAndApply))
	c.Expect(c.get().Status.State.Requirements).To(Equal(&infrav1.StateRequirements{TemplateRef: guarded.TemplateRef}))
}

// A template that requires as much needs no approval to take over, so nothing of the former
// one remains.
func TestRequirements_ofAStricterTemplateReplaceThose(t *testing.T) {
	g := NewWithT(t)
	s := newScope("a")
	use := func(name string, protect ...infrav1.ProtectPattern) *infrav1.StateRequirements {
		s.Sources.Template = &infrav1.WorkspaceTemplate{ObjectMeta: objectMeta(name)}
		s.Sources.Template.Spec.Template.Spec.Protect = protect
		return template.RequirementsOf(s.Sources.Template)
	}
	apply := func() *infrav1.StateRequirements {
		run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
		s.StartState(&terraform.Request{Operation: terraform.OperationPlanAndApply, Backend: s.Inputs.Request.Backend})
		endRun(g, s, run, terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 2}})
		s.RecordState(run, resultOf(g, run))
		return s.Apply.Status.State.Requirements
	}
	first := use("first", "a", "b")
	g.Expect(apply()).To(Equal(first))
	stricter := use("stricter", "c", "b", "a")
	g.Expect(apply()).To(Equal(stricter))
	use("weaker", "b")
	g.Expect(apply()).To(Equal(&infrav1.StateRequirements{Protect: []infrav1.ProtectPattern{"a", "b", "c"}}), "no plan was approved")
	g.Expect(s.FormerRequirements().Protect).To(ContainSubstring("A WorkspaceTemplate that was applied before protects further resources than n/weaker"))
	g.Expect(strings.Join([]string{s.FormerRequirements().Approval, s.FormerRequirements().DestroyApproval}, "")).To(BeEmpty())
}

package engine

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const database = `
variable "dir" { type = string }
variable "size" { type = string }
resource "terraform_data" "db" {
  input            = var.size
  triggers_replace = var.size
  provisioner "local-exec" { command = "echo ${self.input} > ${var.dir}/size" }
}
output "size" { value = terraform_data.db.output }
`

func (w *harness) policy(name string, rules ...infrav1.PolicyRule) *infrav1.WorkspacePolicy {
	w.t.Helper()
	p := &infrav1.WorkspacePolicy{ObjectMeta: w.meta(name), Spec: infrav1.WorkspacePolicySpec{Rules: rules}}
	w.create(p)
	return p
}

// changePolicy edits a policy.
func (w *harness) changePolicy(p *infrav1.WorkspacePolicy, edit func(*infrav1.WorkspacePolicy)) {
	w.t.Helper()
	edit(p)
	w.Expect(env.Client.Update(w.ctx, p)).To(Succeed())
}

var keepDatabases = infrav1.PolicyRule{
	Name: "keep-databases", Action: infrav1.PolicyDeny, Expression: `"delete" in resource.actions && resource.name == "db"`,
	MessageExpression: `resource.address + " has size " + resource.before.input + " and must not be replaced"`,
}

func TestPolicy_deniesThenRequiresApproval(t *testing.T) {
	w := newHarness(t)
	guard := w.policy("guard", keepDatabases)
	w.hello("database", database, variables(map[string]string{"dir": w.dir, "size": "1"}))
	w.Expect(w.file("size")).To(Equal("1"), "nothing is violated")

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["size"] = infrav1.StringValue("2") })
	denied := w.waitReason("hello", infrav1.AppliedCondition, infrav1.PolicyDeniedReason)
	w.Expect(denied.Message).To(ContainSubstring("WorkspacePolicy guard, rule keep-databases: terraform_data.db has size 1 and must not be replaced"))
	runs := w.get("hello").Status.Runs
	w.reconsider("hello", infrav1.AppliedCondition)
	w.Expect(w.get("hello").Status.Runs).To(Equal(runs), "a denied plan is not retried")
	shown := w.captctl("show", "plan", "hello")
	w.Expect(shown.out).To(And(ContainSubstring("denied by a policy"), ContainSubstring("terraform_data.db must be replaced"), ContainSubstring("Deny WorkspacePolicy guard, rule keep-databases")), shown.err)
	refused := w.captctl("approve", "hello", "--yes")
	w.Expect(refused.err).To(ContainSubstring("a policy denies plan"))

	w.changePolicy(guard, func(p *infrav1.WorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyRequireApproval })
	waiting := w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(waiting.Message).To(ContainSubstring("Required by WorkspacePolicy guard"))
	w.Expect(w.file("size")).To(Equal("1"))
	approved := w.captctl("approve", "hello", "--plan", w.get("hello").Status.Plan.ID)
	w.Expect(approved.code).To(BeZero(), approved.err)
	a := w.waitReady("hello")
	w.Expect(w.file("size")).To(Equal("2"))
	w.Expect(a.Status.History[0].Operation).To(BeEquivalentTo("Apply"))
	w.Expect(a.Status.Plan.PolicyAction).To(Equal(infrav1.PolicyRequireApproval))

	// It counts for the next plan only.
	runs = a.Status.Runs
	w.changePolicy(guard, func(p *infrav1.WorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyDeny })
	w.reconsider("hello", infrav1.AppliedCondition)
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["size"] = infrav1.StringValue("3") })
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.PolicyDeniedReason)
	w.Expect(w.get("hello").Status.Runs).To(Equal(runs+1), "the change of the policy started no run")
	w.Expect(w.file("size")).To(Equal("2"))
}

// A policy that is created between the plan and its approval decides about it.
func TestPolicy_decidesAboutAPlanThatWaits(t *testing.T) {
	w := newHarness(t)
	w.template("database", database)
	w.apply("hello", "database", manual, variables(map[string]string{"dir": w.dir, "size": "1"}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan
	w.Expect(plan.Violations).To(BeEmpty())
	guard := w.policy("guard", infrav1.PolicyRule{Name: "no-databases", Action: infrav1.PolicyDeny, Expression: `resource.name == "db"`, Message: "No databases."})
	denied := w.waitReason("hello", infrav1.AppliedCondition, infrav1.PolicyDeniedReason)
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan.ID })
	w.reconsider("hello", infrav1.AppliedCondition)
	w.Expect(denied.Message).To(ContainSubstring("WorkspacePolicy guard, rule no-databases"))
	w.Expect(filepath.Join(w.dir, "size")).NotTo(BeAnExistingFile(), "nothing is applied")
	w.Expect(w.captctl("approve", "hello", "--plan", w.get("hello").Status.Plan.ID).err).To(ContainSubstring("a policy denies plan"))

	// The approval was for a plan about which other policies decided.
	w.Expect(env.Client.Delete(w.ctx, guard)).To(Succeed())
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = a.Status.Plan.ID })
	w.waitReady("hello")
	w.Expect(w.file("size")).To(Equal("1"))
}

// A rule about the whole plan sees that only a part of it is planned.
func TestPolicy_seesThatAPlanIsPartial(t *testing.T) {
	w := newHarness(t)
	w.template("database", database)
	w.apply("hello", "database", manual, variables(map[string]string{"dir": w.dir, "size": "1"}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan.ID
	w.policy("whole", infrav1.PolicyRule{Name: "no-parts", Match: infrav1.PolicyMatchPlan, Action: infrav1.PolicyDeny, Expression: `plan.partial`, Message: "Plan everything."})
	w.waitReplaced("hello", plan, infrav1.AppliedCondition)
	denied := w.captctl("run", "hello", "--target", "terraform_data.db")
	w.Expect(denied.out + denied.err).To(ContainSubstring("Plan everything"))
	w.Expect(w.get("hello").Status.History[0]).To(HaveField("Outcome", BeEquivalentTo("Denied")))
}

func TestPolicy_selectsWorkspacesByLabel(t *testing.T) {
	w := newHarness(t)
	p := &infrav1.WorkspacePolicy{ObjectMeta: w.meta("guard"), Spec: infrav1.WorkspacePolicySpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}},
		Rules:    []infrav1.PolicyRule{{Name: "none", Action: infrav1.PolicyDeny, Expression: `true`, Message: "Nothing changes in production."}},
	}}
	w.create(p)
	w.template("database", database)
	w.apply("test", "database", variables(map[string]string{"dir": w.dir, "size": "1"}))
	w.waitReady("test")
	w.change("test", func(a *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataLabel(&a.ObjectMeta, "stage", "production")
		a.Spec.Variables["size"] = infrav1.StringValue("2")
	})
	w.waitReason("test", infrav1.AppliedCondition, infrav1.PolicyDeniedReason)
	w.change("test", func(a *infrav1.WorkspaceTemplateApply) { delete(a.Labels, "stage") })
	w.waitReady("test")
	w.Expect(w.file("size")).To(Equal("2"), "the plan is decided again without the label")
}

func TestPolicy_holdsADeletionBack(t *testing.T) {
	w := newHarness(t)
	guard := w.policy("guard", infrav1.PolicyRule{
		Name: "no-deletion", Match: infrav1.PolicyMatchPlan, Action: infrav1.PolicyDeny, Expression: `plan.destroy && size(plan.resourceChanges) > 0`,
		Message: "This workspace is in use",
	})
	w.template("database", database)
	w.apply("hello", "database", variables(map[string]string{"dir": w.dir, "size": "1"}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Protect = []infrav1.ProtectPattern{"terraform_data.db"}
	})
	w.waitReady("hello")
	w.delete("hello")
	held := w.waitReason("hello", infrav1.DestroyedCondition, infrav1.PolicyDeniedReason)
	w.Expect(held.Message).To(And(ContainSubstring("Deletion is held: WorkspacePolicy guard, rule no-deletion: This workspace is in use"), ContainSubstring("retainWorkspaceOnDelete")))

	w.changePolicy(guard, func(p *infrav1.WorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyRequireApproval })
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan
	w.Expect(plan.Operation).To(Equal(infrav1.PlanDestroy))
	w.Expect(w.get("hello").Status.State.Resources).To(BeEquivalentTo(1))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan.ID })
	w.waitDeleted("hello")
	w.Expect(w.secrets()).To(BeEmpty())
}

func TestPolicy_ofTheClusterWarns(t *testing.T) {
	w := newHarness(t)
	namespace := &corev1.Namespace{}
	w.Expect(env.Client.Get(w.ctx, client.ObjectKey{Name: w.namespace}, namespace)).To(Succeed())
	namespace.Labels["policy"] = w.namespace
	w.Expect(env.Client.Update(w.ctx, namespace)).To(Succeed())
	p := &infrav1.ClusterWorkspacePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: infrav1.ClusterWorkspacePolicySpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"policy": w.namespace}},
		Rules: []infrav1.PolicyRule{
			{Name: "known", Action: infrav1.PolicyWarn, Expression: `resource.after.output == ""`, Message: "It is known"},
			{Name: "secret", Action: infrav1.PolicyWarn, Expression: `"input" in resource.sensitivePaths`, MessageExpression: `"The input is " + resource.after.input`, Message: "The input is secret"},
		},
	}}
	w.create(p)
	t.Cleanup(func() {
		NewWithT(t).Expect(client.IgnoreNotFound(env.Client.Delete(context.Background(), p))).To(Succeed())
	})
	w.apply("hello", "secret", variables(map[string]string{"password": "canary-29a7c1"}))
	w.waitReason("hello", infrav1.DependenciesReadyCondition, infrav1.WaitingForTemplateReason)
	w.template("secret", `
variable "password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "db" { input = var.password }
`)
	a := w.waitReady("hello")
	w.Expect(a.Status.Plan.Violations).To(HaveLen(2))
	w.Expect(a.Status.Plan.Violations[0].Message).To(HavePrefix("The rule cannot be evaluated: no such key: output"), "an unknown value is not there")
	w.Expect(a.Status.Plan.Violations[1].Message).To(Equal("The input is secret"))
	w.Expect(w.log(a.Status.Plan.Run)).To(And(ContainSubstring("Policy (Warn): ClusterWorkspacePolicy"), Not(ContainSubstring("canary-29a7c1"))))

	var events corev1.EventList
	w.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(w.ctx, &events, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(And(HaveField("Reason", infrav1.PolicyViolatedReason), HaveField("Message", ContainSubstring("The input is secret")))))
	}, testTimeout).Should(Succeed())
}

package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

// counted has two resources that write a line when they are created.
const counted = `
variable "dir" { type = string }
variable "a" { default = "1" }
variable "b" { default = "1" }
resource "terraform_data" "a" {
  input = var.a
  provisioner "local-exec" { command = "echo a >> ${var.dir}/created" }
}
resource "terraform_data" "b" {
  input = var.b
  provisioner "local-exec" { command = "echo b >> ${var.dir}/created" }
}
output "a" { value = terraform_data.a.output }
output "b" { value = terraform_data.b.output }
`

// created returns how often a resource of counted was created.
func (w *harness) created(name string) int { return strings.Count(w.file("created")+"\n", name+"\n") }

func TestRun_replacesOnceAndShowsPlans(t *testing.T) {
	w := newHarness(t)
	w.template("counted", counted, func(s *infrav1.WorkspaceSpec) { s.Protect = []infrav1.ProtectPattern{"terraform_data.b"} })
	w.apply("hello", "counted", variables(map[string]string{"dir": w.dir}))
	before := w.waitReady("hello")

	shown := w.succeed("run", "hello", "--replace", "terraform_data.a", "--plan-only")
	w.Expect(shown).To(And(ContainSubstring("(--replace terraform_data.a --plan-only, requested by "+testenv.AdminUser+")"), ContainSubstring("terraform_data.a must be replaced, because it was requested"), ContainSubstring("Planned: 1 to add, 0 to change, 1 to destroy")))
	a := w.waitReady("hello")
	w.Expect(a.Status.Plan.Waiting).To(BeNil(), "the plan cannot be approved")
	w.Expect(a.Status.AppliedInputs).To(Equal(before.Status.AppliedInputs))
	w.Expect(w.secrets()).NotTo(ContainElement(Equal("capt-" + a.Status.Plan.ID + "-0")))
	w.Expect(w.created("a")).To(Equal(1))

	w.Expect(w.captctl("run", "hello", "--replace", "terraform_data.a").code).To(Equal(2), "stdin is not a terminal")
	replaced := w.succeed("run", "hello", "--replace", "terraform_data.a", "--yes", "-o", "json")
	var result struct {
		Run infrav1.RunRecord `json:"run"`
	}
	w.Expect(json.Unmarshal([]byte(replaced), &result)).To(Succeed())
	w.Expect(result.Run.Outcome).To(BeEquivalentTo("Succeeded"))
	w.Expect(result.Run.Request.Arguments).To(Equal("--replace terraform_data.a"))
	a = w.waitReady("hello")
	w.Expect(a.Status.AppliedInputs).To(Equal(before.Status.AppliedInputs))
	w.Expect(a.Status.History[0].ID).To(Equal(result.Run.ID), "no other run follows")
	w.Expect(w.captctl("history", "hello").out).To(ContainSubstring("--replace terraform_data.a (" + testenv.AdminUser + "): 1 added, 0 changed, 1 destroyed"))
	w.Expect([]int{w.created("a"), w.created("b")}).To(Equal([]int{2, 1}))

	for _, refused := range []struct{ args, message string }{
		{"--replace terraform_data.z", `the state has no resource instance terraform_data.z: did you mean "terraform_data.`},
		{"--target module.nothing", "neither the state nor the plan has a resource in module.nothing"},
		{"--import terraform_data.a=x", "terraform_data.a is in the state already"},
		{"--replace terraform_data.b", "the plan would destroy or replace protected resources, or does not find them, so nothing was applied"},
	} {
		r := w.captctl(append([]string{"run", "hello", "--yes"}, strings.Fields(refused.args)...)...)
		w.Expect(r.code).To(Equal(1), refused.args)
		w.Expect(r.err).To(ContainSubstring(refused.message))
	}
	a = w.waitReady("hello")
	w.Expect(a.Status.AppliedInputs).To(Equal(before.Status.AppliedInputs))
	w.Expect(w.created("b")).To(Equal(1))

	w.annotate("hello", "cluster.x-k8s.io/paused", "")
	w.Eventually(func() string { return w.captctl("run", "hello", "--plan-only").err }, testTimeout).Should(ContainSubstring("hello is paused: resume it first"))
}

func TestRun_appliesATargetAfterApprovalAndThenTheRest(t *testing.T) {
	w := newHarness(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) {
		manual(&a.Spec)
		a.Spec.Variables["a"], a.Spec.Variables["b"] = infrav1.StringValue("2"), infrav1.StringValue("2")
	})
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.get("hello").Status.Plan.Change).To(BeEquivalentTo(2))
	w.Expect(w.captctl("run", "hello", "--plan-only").err).To(ContainSubstring("waits for a decision, and another plan would replace it"))

	waits := w.succeed("run", "hello", "--target", "terraform_data.a")
	w.Expect(waits).To(And(ContainSubstring("waiting for approval"), ContainSubstring("Plan: 0 to add, 1 to change, 0 to destroy")))
	plan := w.get("hello").Status.Plan
	w.Expect(plan.Request.Arguments).To(Equal("--target terraform_data.a"))
	w.Expect(w.captctl("run", "hello", "--refresh-only").err).To(ContainSubstring("has not finished an earlier request (--target terraform_data.a)"))
	approved := w.succeed("approve", "hello", "--plan", plan.ID, "--wait")
	w.Expect(approved).To(MatchRegexp(`Run hello-r\d+ of hello: Succeeded`))

	w.Eventually(func(g Gomega) {
		a := w.get("hello")
		g.Expect(a.Status.Plan).NotTo(BeNil())
		g.Expect(a.Status.Plan.Request).To(BeNil(), "the rest is planned")
		g.Expect(a.Status.Plan.Waiting).To(HaveValue(BeTrue()))
		g.Expect(objecttest.Condition(a, infrav1.AppliedCondition).Reason).To(Equal(infrav1.WaitingForApprovalReason))
	}, testTimeout).Should(Succeed())
	a := w.get("hello")
	w.Expect(a.Status.AppliedInputs).To(BeEmpty(), "not all inputs are applied")
	w.Expect(a.Status.Plan.Changes).To(ContainElement(infrav1.ResourceChange{Address: "terraform_data.b", Action: "update"}))
	w.Expect(a.Status.Plan.Changes).NotTo(ContainElement(HaveField("Address", "terraform_data.a")))
	w.Expect(w.captctl("approve", "hello", "--yes", "--wait").code).To(Equal(0))
	w.Expect(w.waitReady("hello").Status.Outputs["b"].String()).To(Equal("2"))
}

func TestRun_importsIntoANewWorkspace(t *testing.T) {
	w := newHarness(t)
	w.template("counted", counted)
	w.apply("hello", "counted", manual, variables(map[string]string{"dir": w.dir}))
	w.waitReason("hello", infrav1.AppliedCondition, infrav1.WaitingForApprovalReason)

	waits := w.succeed("run", "hello", "--import", "terraform_data.b=existing-${x}")
	w.Expect(waits).To(ContainSubstring("terraform_data.b"))
	w.succeed("approve", "hello", "--yes", "--wait")
	a := w.waitReady("hello")
	w.Expect(a.Status.State.Resources).To(BeEquivalentTo(2))
	w.Expect([]int{w.created("a"), w.created("b")}).To(Equal([]int{1, 0}), "the imported resource is not created")
	w.Expect(w.captctl("state", "show", "hello", "terraform_data.b").out).To(MatchRegexp(`id +=? *"existing-\$?\$\{x\}"`))

	changed := w.succeed("run", "hello", "--refresh-only")
	w.Expect(changed).To(ContainSubstring("NoChanges"))
	w.waitReady("hello")

	rejected := w.captctl("run", "hello", "--replace", "terraform_data.a")
	w.Expect(rejected.code).To(Equal(0), rejected.err)
	w.Expect(w.captctl("reject", "hello").code).To(Equal(0))
	w.Eventually(func() *bool { return w.get("hello").Status.Plan.Waiting }, testTimeout).ShouldNot(HaveValue(BeTrue()))
	w.waitReady("hello")
	w.Expect(w.created("a")).To(Equal(1), "a rejected operation is not executed")
}

func TestRun_survivesARestartAndHappensOnce(t *testing.T) {
	w := newHarnessWithManager(t)
	w.hello("counted", counted, variables(map[string]string{"dir": w.dir}))
	w.Expect(w.Stop(syscall.SIGTERM)).To(Succeed())

	requested := w.succeed("run", "hello", "--replace", "terraform_data.a", "--yes", "--wait=false")
	w.Expect(requested).To(ContainSubstring("Requested a run of hello with --replace terraform_data.a"))
	w.Expect(w.Start()).To(Succeed())
	w.Eventually(func(g Gomega) {
		var list infrav1.WorkspaceOperationList
		g.Expect(env.Client.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		g.Expect(list.Items[0].Status.Phase).To(Equal(infrav1.OperationSucceeded))
	}, testTimeout).Should(Succeed())
	w.waitReady("hello")
	runs := w.get("hello").Status.Runs
	w.Expect(w.Stop(syscall.SIGTERM)).To(Succeed())
	w.Expect(w.Start()).To(Succeed())

	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift})
	w.Eventually(func() int64 { return w.get("hello").Status.Runs }, testTimeout).Should(Equal(runs + 1))
	w.Eventually(func() string { return string(w.get("hello").Status.History[0].Operation) }, testTimeout).Should(Equal("CheckDrift"))
	w.Expect(w.created("a")).To(Equal(2), "a restart does not repeat it")
}

func TestRun_protectsWhatARefreshRemovesFromTheState(t *testing.T) {
	w := prepareWithManager(t)
	w.Env = []string{"TF_CLI_CONFIG_FILE=" + w.mirror()}
	w.Expect(w.Start()).To(Succeed())
	guard := w.policy("guard", infrav1.PolicyRule{Name: "keep", Action: infrav1.PolicyDeny, Expression: `resource.action == "delete" && plan.toDestroy > 0`, Message: "It must stay in the state"})
	w.template("files", files, func(s *infrav1.WorkspaceSpec) { s.Protect = []infrav1.ProtectPattern{"local_file"} })
	w.apply("hello", "files", variables(map[string]string{"dir": w.dir}))
	before := w.waitReady("hello")
	w.Expect(os.Remove(filepath.Join(w.dir, "f"))).To(Succeed())

	denied := w.captctl("run", "hello", "--refresh-only", "--yes")
	w.Expect(denied.code).To(Equal(1), denied.out)
	w.Expect(denied.err).To(ContainSubstring("a policy denies the plan"))
	w.changePolicy(guard, func(p *infrav1.WorkspacePolicy) { p.Spec.Rules[0].Action = infrav1.PolicyWarn })
	w.reconsider("hello", infrav1.AppliedCondition)
	blocked := w.captctl("run", "hello", "--refresh-only", "--yes")
	w.Expect(blocked.code).To(Equal(1), blocked.out)
	w.Expect(blocked.err).To(ContainSubstring("protected resources"))
	w.Expect(w.captctl("state", "list", "hello").out).To(ContainSubstring("local_file.f"))

	held := w.succeed("run", "hello", "--refresh-only", "--hold")
	w.Expect(held).To(ContainSubstring("waiting for approval"))
	a := w.waitReady("hello")
	w.Expect(a.Status.Plan.Blocked).To(Equal([]string{"local_file.f"}))
	w.Expect(objecttest.Condition(a, infrav1.AppliedCondition).Message).To(ContainSubstring("waits for a decision"), "the workspace stays ready")
	w.request("hello", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift})
	w.Eventually(func() string { return string(w.get("hello").Status.History[0].Operation) }, testTimeout).Should(Equal("CheckDrift"), "drift is checked meanwhile")
	w.succeed("approve", "hello", "--allow-destroy", "local_file.f", "--yes", "--wait")
	w.Eventually(func() int32 { return w.get("hello").Status.State.Resources }, testTimeout).Should(BeZero())
	a = w.waitReady("hello")
	w.Expect(a.Status.AppliedInputs).To(Equal(before.Status.AppliedInputs))
	w.Expect(w.file("f")).To(BeEmpty(), "what drifted is not reverted")
}

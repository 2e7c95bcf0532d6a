package engine

import (
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const network = `
variable "dir" { type = string }
resource "terraform_data" "vpc" {
  input = var.dir
  provisioner "local-exec" { command = "touch ${self.input}/vpc" }
  provisioner "local-exec" {
    when    = destroy
    command = "rm ${self.input}/vpc"
  }
}
resource "terraform_data" "subnet" { input = terraform_data.vpc.id }
`

func manualDestroy(s *infrav1.WorkspaceTemplateApplySpec) {
	s.DestroyApproval = infrav1.ApprovalManual
}

func (w *harness) exists(name string) bool {
	found, err := filepath.Glob(filepath.Join(w.dir, name))
	w.Expect(err).NotTo(HaveOccurred())
	return len(found) > 0
}

// restart kills the manager and starts it again.
func (w *harness) restart() {
	w.t.Helper()
	w.Expect(w.Stop(syscall.SIGKILL)).To(Succeed())
	w.Expect(w.Start()).To(Succeed())
}

func TestDelete_waitsForApprovedDestroyPlan(t *testing.T) {
	w := newHarnessWithManager(t)
	w.hello("network", network, manualDestroy, variables(map[string]string{"dir": w.dir}))

	// The garbage collector deletes all that the workspace owns.
	foreground := metav1.DeletePropagationForeground
	w.Expect(env.Client.Delete(w.ctx, w.get("hello"), &client.DeleteOptions{PropagationPolicy: &foreground})).To(Succeed())
	waiting := w.waitReason("hello", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan
	w.Expect(plan.Operation).To(Equal(infrav1.PlanDestroy))
	w.Expect(waiting.Message).To(And(ContainSubstring(plan.ID+" would destroy 2 resources"), ContainSubstring("retainWorkspaceOnDelete: true")))
	w.Expect(w.secret("capt-" + plan.ID + "-0").OwnerReferences).To(BeEmpty())

	w.restart()
	w.reconsider("hello", infrav1.DestroyedCondition)
	w.Expect(w.exists("vpc")).To(BeTrue(), "nothing is destroyed before it is approved")
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	w.Expect(w.get("hello").Status.Plan.ID).To(Equal(plan.ID), "a restart makes no other plan")

	shown := w.captctl("show", "plan", "hello")
	w.Expect(shown.out).To(And(HavePrefix("Destroy plan "+plan.ID), ContainSubstring("terraform_data.vpc will be destroyed")), shown.err)
	w.succeed("approve", "hello", "--plan", plan.ID)
	w.waitDeleted("hello")
	w.Expect(w.exists("vpc")).To(BeFalse())
	w.Expect(w.secrets()).To(BeEmpty(), "the plan and the state are deleted")
}

func TestDelete_protectedResourcesHoldTheDestructionBack(t *testing.T) {
	w := newHarnessWithManager(t)
	w.template("network", network, func(s *infrav1.WorkspaceSpec) {
		s.DestroyApproval, s.Protect = infrav1.ApprovalManual, []infrav1.ProtectPattern{"terraform_data.vpc"}
	})
	w.apply("hello", "network", variables(map[string]string{"dir": w.dir}), func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.DestroyApproval = infrav1.ApprovalAuto // The stricter mode wins.
	})
	w.waitReady("hello")

	w.delete("hello") // As GitOps does when the manifest is removed.
	held := w.waitReason("hello", infrav1.DestroyedCondition, infrav1.ProtectedResourceReason)
	w.Expect(held.Message).To(And(ContainSubstring("terraform_data.vpc"), Not(ContainSubstring("subnet")), ContainSubstring("--allow-destroy")))
	plan := w.get("hello").Status.Plan.ID
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	for range 2 {
		w.restart()
		w.reconsider("hello", infrav1.DestroyedCondition)
		w.waitReason("hello", infrav1.DestroyedCondition, infrav1.ProtectedResourceReason)
		w.Expect(w.exists("vpc")).To(BeTrue())
	}
	w.allowDestroy("hello", "terraform_data.vpc")
	w.waitDeleted("hello")
	w.Expect(w.exists("vpc")).To(BeFalse())
}

func TestDelete_aStaleDestroyPlanWaitsAgain(t *testing.T) {
	w := newHarness(t)
	w.hello("network", network, manualDestroy, variables(map[string]string{"dir": w.dir}))
	w.delete("hello")
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.WaitingForApprovalReason)
	plan := w.get("hello").Status.Plan.ID

	w.bumpState("hello")
	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.ApprovedPlan = plan })
	w.waitReplaced("hello", plan, infrav1.DestroyedCondition)
	w.Expect(w.exists("vpc")).To(BeTrue(), "the stale plan was not applied")
	w.Eventually(func() []string { return w.secretsWith("capt-" + plan) }, testTimeout).Should(Equal([]string{"capt-" + plan + "-changes-0"}), "the stale plan is deleted, and what it was to change is kept")

	second := w.get("hello").Status.Plan.ID
	w.decide("hello", second, infrav1.DecisionReject)
	w.waitReason("hello", infrav1.DestroyedCondition, infrav1.PlanRejectedReason)
	w.Expect(w.exists("vpc")).To(BeTrue())

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.RetainWorkspaceOnDelete = true })
	w.waitDeleted("hello")
	w.Expect(w.exists("vpc")).To(BeTrue(), "the resources are kept")
}

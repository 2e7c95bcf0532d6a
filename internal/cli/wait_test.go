package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// withoutTemplate creates a workspace that cannot start a run.
func (h *harness) withoutTemplate(name string) *infrav1.WorkspaceTemplateApply {
	h.t.Helper()
	apply := workspace(name)
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForTemplateReason, "WorkspaceTemplate default/greting does not exist")
	})
	return apply
}

func TestWait_endsIfTheWorkspaceCannotStart(t *testing.T) {
	h := newHarness(t)
	h.withoutTemplate("net")
	const reason = "net cannot start a run: WaitingForTemplate: WorkspaceTemplate default/greting does not exist"
	retry, list := h.start("retry", "net", "--wait"), h.start("state", "list", "net")
	h.Eventually(retry.code, timeout).Should(Receive(Equal(1)))
	h.Expect(retry.err.String()).To(Equal("WaitingForTemplate: WorkspaceTemplate default/greting does not exist\n" + reason))
	h.Eventually(list.code, timeout).Should(Receive(Equal(1)))
	h.Expect(list.err.String()).To(HaveSuffix(reason + "; the command was requested and may still be executed"))
}

func TestWait_continuesIfTheCauseIsRemoved(t *testing.T) {
	h := newHarness(t)
	apply := h.withoutTemplate("net")
	running := h.start("retry", "net", "--wait")
	h.Eventually(running.err.String, timeout).Should(ContainSubstring("WaitingForTemplate"))
	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "1 resource")
		apply.Status.HandledRequest = apply.Annotations[infrav1.RunRequestedAnnotation]
	})
	h.Eventually(running.code, timeout).Should(Receive(Equal(0)), running.err.String)
	h.Expect(running.out.String()).To(ContainSubstring("net is applied: 1 resource"))
}

func TestWait_endsWithAnInterrupt(t *testing.T) {
	h := newHarness(t)
	h.withoutTemplate("net")
	running := h.start("state", "list", "net")
	h.Eventually(running.err.String, timeout).Should(ContainSubstring("WaitingForTemplate"))
	running.stop()
	h.Eventually(running.code, timeout).Should(Receive(Equal(130)))
	h.Expect(running.err.String()).To(HaveSuffix("does not exist\nInterrupted: the command was requested and may still be executed\n"))
}

// The condition is from before the request: it must not advise to approve the plan.
func TestWait_doesNotAdviseToApprove(t *testing.T) {
	h := newHarness(t)
	apply := h.planned("net")
	h.setStatus(apply, func() {
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "Plan plan-0123456789abcdef waits for approval: set spec.approvedPlan to plan-0123456789abcdef")
	})
	list := h.start("state", "list", "net")
	h.Eventually(list.err.String, timeout).Should(Equal("WaitingForApproval\n"))
	list.stop()
	h.Eventually(list.code, timeout).Should(Receive(Equal(130)))

	approve := h.start("approve", "net", "--yes", "--wait")
	h.Eventually(approve.err.String, timeout).Should(Equal("Waiting until plan plan-0123456789abcdef is applied\n"))
	approve.stop()
	h.Eventually(approve.code, timeout).Should(Receive(Equal(130)))
}

func TestDrift_waitsForTheRunThatIsInProgress(t *testing.T) {
	h := newHarness(t)
	apply := workspace("net")
	h.create(apply)
	h.setStatus(apply, func() {
		apply.Status.AppliedAt, apply.Status.Run = metav1.Now(), &infrav1.RunStatus{ID: "net-r2", Operation: "PlanAndApply", StartedAt: metav1.Now()}
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionFalse, infrav1.RunInProgressReason, "")
	})
	running := h.start("drift", "net", "--now")
	h.Eventually(running.err.String, timeout).Should(ContainSubstring("net-r2"))
	h.setStatus(apply, func() {
		apply.Status.Run = nil
		apply.Status.Conditions = condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason, "")
	})
	h.Eventually(func() map[string]string { return h.annotations(apply) }, timeout).Should(HaveKey(infrav1.CheckDriftAnnotation))
	h.setStatus(apply, func() {
		apply.Status.Drift = &infrav1.DriftStatus{Request: apply.Annotations[infrav1.CheckDriftAnnotation], CheckedAt: metav1.Now()}
	})
	h.Eventually(running.code, timeout).Should(Receive(Equal(0)), running.err.String)
}

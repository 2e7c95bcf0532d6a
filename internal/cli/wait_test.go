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

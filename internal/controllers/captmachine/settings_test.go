package captmachine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestMachine_setsTheSettingsOfItsWorkspace(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker", func(m *infrav1.CAPTMachine) {
		m.Spec.Workspace = &infrav1.WorkspaceSettings{
			Approval: infrav1.ApprovalManual, Protect: []infrav1.ProtectPattern{"aws_instance"},
			Drift: &infrav1.DriftPolicy{Action: infrav1.DriftReport},
		}
	})
	h.waitForWorkspace("the workspace should be created with the settings", func(g Gomega, apply *infrav1.WorkspaceTemplateApply) {
		g.Expect(apply.Spec.Approval).To(Equal(infrav1.ApprovalManual))
		g.Expect(apply.Spec.Protect).To(ConsistOf(infrav1.ProtectPattern("aws_instance")))
		g.Expect(apply.Spec.Drift).To(Equal(&infrav1.DriftPolicy{Action: infrav1.DriftReport}))
		g.Expect(apply.Spec.Retry).To(BeNil())
	})

	// What the machine leaves open is the user's, what it sets is not.
	h.patch(h.Workspace("worker"), `{"spec":{"approval":"Auto","drift":{"interval":"2h"},"retry":{"limit":7},"protect":["aws_instance","aws_ebs_volume"]}}`)
	h.waitForWorkspace("the machine should set its approval again", func(g Gomega, apply *infrav1.WorkspaceTemplateApply) {
		g.Expect(apply.Spec.Approval).To(Equal(infrav1.ApprovalManual))
		g.Expect(apply.Spec.Drift.Action).To(Equal(infrav1.DriftReport))
		g.Expect(apply.Spec.Drift.Interval).To(HaveValue(HaveField("Duration", 2*time.Hour)))
		g.Expect(apply.Spec.Retry.Limit).To(HaveValue(Equal(int32(7))))
		g.Expect(apply.Spec.Protect).To(ConsistOf(infrav1.ProtectPattern("aws_instance"), infrav1.ProtectPattern("aws_ebs_volume")))
		g.Expect(apply.Status.ObservedGeneration).To(Equal(apply.Generation))
	})
	h.ExpectNoWrites(h.settle, h.Workspace("worker"))

	h.Update(machine, func() {
		machine.Spec.Workspace = &infrav1.WorkspaceSettings{
			DestroyApproval: infrav1.ApprovalManual, Retry: &infrav1.RetryPolicy{MaxBackoff: &metav1.Duration{Duration: time.Minute}},
		}
	})
	h.waitForWorkspace("a change should reach the workspace", func(g Gomega, apply *infrav1.WorkspaceTemplateApply) {
		g.Expect(apply.Spec.Approval).To(BeEmpty())
		g.Expect(apply.Spec.DestroyApproval).To(Equal(infrav1.ApprovalManual))
		g.Expect(apply.Spec.Drift.Action).To(BeEmpty())
		g.Expect(apply.Spec.Drift.Interval).NotTo(BeNil(), "the field of the user")
		g.Expect(apply.Spec.Retry.MaxBackoff).To(HaveValue(HaveField("Duration", time.Minute)))
		g.Expect(apply.Spec.Retry.Limit).NotTo(BeNil(), "the field of the user")
		g.Expect(apply.Spec.Protect).To(ConsistOf(infrav1.ProtectPattern("aws_ebs_volume")))
	})

	h.Update(machine, func() { machine.Spec.Workspace = nil })
	h.waitForWorkspace("without the settings the defaults should count", func(g Gomega, apply *infrav1.WorkspaceTemplateApply) {
		g.Expect(apply.Spec.DestroyApproval).To(BeEmpty())
		g.Expect(apply.Spec.Retry.MaxBackoff).To(BeNil())
	})
}

// A user can require more in the workspace than the machine does, which does not weaken it.
func TestMachine_doesNotWeakenItsWorkspace(t *testing.T) {
	h := newHarness(t)
	h.MakeReady()
	machine := h.machine("worker")
	h.WaitForCondition(machine, infrav1.InstanceReadyCondition, metav1.ConditionTrue, "Ready")
	h.patch(h.Workspace("worker"), `{"spec":{"approval":"Manual"}}`)
	for _, mode := range []infrav1.ApprovalMode{infrav1.ApprovalManual, infrav1.ApprovalAuto} {
		h.Update(machine, func() {
			machine.Spec.Workspace = &infrav1.WorkspaceSettings{Approval: mode, Retry: &infrav1.RetryPolicy{Limit: new(int32(len(mode)))}}
		})
		h.waitForWorkspace("the settings should reach the workspace", func(g Gomega, apply *infrav1.WorkspaceTemplateApply) {
			g.Expect(apply.Spec.Retry).To(HaveField("Limit", HaveValue(Equal(int32(len(mode))))))
			g.Expect(apply.Spec.Approval).To(Equal(infrav1.ApprovalManual))
		})
	}
}

// waitForWorkspace reads the workspace of the machine worker until the check passes. Each time
// it is a new object: decoding into another one keeps the fields that were removed.
func (h *harness) waitForWorkspace(explanation string, check func(g Gomega, apply *infrav1.WorkspaceTemplateApply)) {
	h.T.Helper()
	h.Eventually(func(g Gomega) {
		apply := h.Workspace("worker")
		g.Expect(env.Client.Get(h.T.Context(), client.ObjectKeyFromObject(apply), apply)).To(Succeed())
		check(g, apply)
	}).Should(Succeed(), explanation)
}

func (h *harness) patch(obj client.Object, text string) {
	h.T.Helper()
	h.Expect(env.Client.Patch(h.T.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(text)))).To(Succeed())
}

package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestApproval_recordsWhoApprovedThePlan(t *testing.T) {
	g := NewWithT(t)
	const plan = "plan-0123456789abcdef"
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Recorder: recorder}
	s := newScope("hello")
	g.Expect(r.approval(t.Context(), s)).To(Succeed(), "without a plan")

	s.Apply.Status.Plan = &infrav1.PlanStatus{ID: plan, Waiting: new(true)}
	g.Expect(r.approval(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Plan.ApprovedBy).To(BeEmpty())

	s.Apply.Spec.ApprovedPlan = plan
	s.Apply.Annotations = map[string]string{infrav1.ApprovedByAnnotation: infrav1.Approval{Plan: plan, At: metav1.NewTime(noon), By: "bob"}.String()}
	g.Expect(r.approval(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Plan.ApprovedBy).To(Equal("bob"))
	g.Expect(s.Apply.Status.Plan.ApprovedAt.Time).To(BeTemporally("==", noon))
	g.Expect(recorder.Events).To(Receive(ContainSubstring("PlanApproved bob approved plan " + plan)))

	g.Expect(r.approval(t.Context(), s)).To(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "the event is not repeated")

	s.Requests.Approvals = []*infrav1.WorkspaceApproval{newDecision("a", plan, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.Comment = "Agreed\nin the meeting" })}
	s.Apply.Status.Plan.ApprovedBy = ""
	g.Expect(r.approval(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Plan.Comment).To(Equal("Agreed in the meeting"))
	g.Expect(s.Apply.Status.Plan.ApprovedBy).To(Equal("alice"), "the WorkspaceApproval counts")
	g.Expect(recorder.Events).To(Receive(HaveSuffix(` with the comment "Agreed in the meeting"`)))

	s.Apply.Status.Plan.ID = "plan-fedcba9876543210"
	g.Expect(r.approval(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.Plan.ApprovedBy).To(BeEmpty(), "another plan")
	g.Expect(s.Apply.Status.Plan.Comment).To(BeEmpty(), "another plan")
}

package webhooks

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestAuthors_areRecordedAndCannotBeForged(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const first, second = "plan-0123456789abcdef", "plan-fedcba9876543210"
	forged := map[string]string{infrav1.ChangedByAnnotation: "mallory", infrav1.ApprovedByAnnotation: first + " 2020-01-01T00:00:00Z mallory"}

	created := &infrav1.WorkspaceTemplateApply{}
	created.Spec.TemplateRef.Name, created.Annotations = "vpc", forged
	setAuthors(&infrav1.WorkspaceTemplateApply{}, created, "alice", now)
	g.Expect(created.Annotations).To(Equal(map[string]string{infrav1.ChangedByAnnotation: "alice"}))

	approved := created.DeepCopy()
	approved.Spec.ApprovedPlan = first
	setAuthors(created, approved, "bob", now)
	g.Expect(approved.Annotations).To(HaveKeyWithValue(infrav1.ChangedByAnnotation, "alice"), "an approval does not count as a change")
	g.Expect(infrav1.ApprovalOf(approved)).To(HaveValue(And(HaveField("Plan", first), HaveField("By", "bob"), HaveField("At.Time", BeTemporally("==", now)))))

	untouched := approved.DeepCopy()
	untouched.Annotations = map[string]string{infrav1.ApprovedByAnnotation: forged[infrav1.ApprovedByAnnotation], "other": "x"}
	setAuthors(approved, untouched, "mallory", now.Add(time.Hour))
	g.Expect(untouched.Annotations).To(Equal(map[string]string{
		infrav1.ChangedByAnnotation: "alice", infrav1.ApprovedByAnnotation: approved.Annotations[infrav1.ApprovedByAnnotation], "other": "x",
	}))

	again := approved.DeepCopy()
	again.Spec.ApprovedPlan, again.Spec.Approval = second, infrav1.ApprovalManual
	setAuthors(approved, again, "carol with spaces", now)
	g.Expect(again.Annotations).To(HaveKeyWithValue(infrav1.ChangedByAnnotation, "carol with spaces"))
	g.Expect(infrav1.ApprovalOf(again)).To(HaveValue(HaveField("By", "carol with spaces")))

	switched := approved.DeepCopy()
	switched.Spec.TemplateRef.Name = "other"
	setAuthors(approved, switched, "alice", now)
	g.Expect(switched.Spec.ApprovedPlan).To(BeEmpty(), "what was approved with another template has to be approved again")
	g.Expect(switched.Annotations).NotTo(HaveKey(infrav1.ApprovedByAnnotation))
	switched.Spec.TemplateRef.Name, switched.Spec.ApprovedPlan = "third", second
	setAuthors(approved, switched, "bob", now)
	g.Expect(switched.Spec.ApprovedPlan).To(Equal(second))

	withdrawn := again.DeepCopy()
	withdrawn.Spec.ApprovedPlan = ""
	setAuthors(again, withdrawn, "bob", now)
	g.Expect(withdrawn.Annotations).NotTo(HaveKey(infrav1.ApprovedByAnnotation))
}

package webhooks

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	commented := created.DeepCopy()
	commented.Spec.ApprovedPlan = first
	commented.Annotations[infrav1.CommentAnnotation] = first + " Looks good"
	setAuthors(created, commented, "bob", now)
	g.Expect(infrav1.CommentOf(commented, first)).To(Equal("Looks good"))
	g.Expect(infrav1.CommentOf(commented, second)).To(BeEmpty())
	changed := commented.DeepCopy()
	changed.Annotations[infrav1.CommentAnnotation] = first + " Bob did not write this"
	setAuthors(commented, changed, "mallory", now)
	g.Expect(infrav1.CommentOf(changed, first)).To(Equal("Looks good"), "a comment belongs to the decision")
	for name, value := range map[string]string{infrav1.RejectPlanAnnotation: first, infrav1.AllowDestroyAnnotation: "x"} {
		other := commented.DeepCopy()
		other.Annotations[name] = value
		other.Annotations[infrav1.CommentAnnotation] = first + " Bob did not write this"
		setAuthors(commented, other, "mallory", now)
		g.Expect(infrav1.CommentOf(other, first)).To(Equal("Looks good"), "%s does not decide about an approved plan", name)
	}
	rejected := created.DeepCopy()
	rejected.Annotations[infrav1.RejectPlanAnnotation] = first
	rejected.Annotations[infrav1.CommentAnnotation] = first + " Too expensive"
	setAuthors(created, rejected, "carol", now)
	g.Expect(infrav1.CommentOf(rejected, first)).To(Equal("Too expensive"))
	reapproved := rejected.DeepCopy()
	reapproved.Spec.ApprovedPlan = first
	setAuthors(rejected, reapproved, "bob", now)
	g.Expect(infrav1.CommentOf(reapproved, first)).To(BeEmpty(), "the comment of another user is not that of the approver")

	again := approved.DeepCopy()
	again.Spec.ApprovedPlan, again.Spec.Approval = second, infrav1.ApprovalManual
	setAuthors(approved, again, "carol with spaces", now)
	g.Expect(again.Annotations).To(HaveKeyWithValue(infrav1.ChangedByAnnotation, "carol with spaces"))
	g.Expect(infrav1.ApprovalOf(again)).To(HaveValue(HaveField("By", "carol with spaces")))

	request := created.DeepCopy()
	request.Annotations[infrav1.OneShotAnnotation] = `{"id":"1","uid":"u","refreshOnly":true}`
	request.Annotations[infrav1.RequestedByAnnotation] = "1 mallory"
	setAuthors(created, request, "alice with spaces", now)
	g.Expect(infrav1.RequesterOf(request, "1")).To(Equal("alice with spaces"))
	g.Expect(infrav1.RequesterOf(request, "2")).To(BeEmpty())
	taken := request.DeepCopy()
	taken.Annotations[infrav1.RequestedByAnnotation] = "1 mallory"
	setAuthors(request, taken, "mallory", now)
	g.Expect(infrav1.RequesterOf(taken, "1")).To(Equal("alice with spaces"))
	edited := request.DeepCopy()
	edited.Annotations[infrav1.OneShotAnnotation] = `{"id":"1","uid":"u","planOnly":true}`
	setAuthors(request, edited, "mallory", now)
	g.Expect(infrav1.RequesterOf(edited, "1")).To(Equal("mallory"), "what is executed is the request of the last user")

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

func TestSetAuthors_recordsWhoOpensAShell(t *testing.T) {
	g := NewWithT(t)
	const shell = `{"id":"shell-1","uid":"u"}`
	before := &infrav1.WorkspaceTemplateApply{}
	opened := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.ShellAnnotation: shell, infrav1.ShellByAnnotation: "shell-1 mallory"}}}
	setAuthors(before, opened, "ada", time.Now())
	g.Expect(infrav1.ShellUserOf(opened, "shell-1")).To(Equal("ada"))
	taken := opened.DeepCopy()
	taken.Annotations[infrav1.ShellByAnnotation] = "shell-1 mallory"
	setAuthors(opened, taken, "mallory", time.Now())
	g.Expect(infrav1.ShellUserOf(taken, "shell-1")).To(Equal("ada"))
	closed := taken.DeepCopy()
	delete(closed.Annotations, infrav1.ShellAnnotation)
	setAuthors(taken, closed, "bob", time.Now())
	g.Expect(closed.Annotations).NotTo(HaveKey(infrav1.ShellByAnnotation))
}

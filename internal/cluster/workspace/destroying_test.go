package workspace

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestDestroyingSince_excludesTheWaitForApproval(t *testing.T) {
	g := NewWithT(t)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Status.History = []infrav1.RunRecord{{Operation: "PlanDestroy", StartedAt: metav1.NewTime(began.Add(time.Minute))}}
	g.Expect(destroyingSince(apply, began)).To(Equal(began))

	apply.Status.Run = &infrav1.RunStatus{Operation: applyDestroy, StartedAt: metav1.NewTime(began.Add(2 * time.Hour))}
	g.Expect(destroyingSince(apply, began)).To(Equal(began.Add(2 * time.Hour)))

	apply.Status.History = append([]infrav1.RunRecord{{Operation: applyDestroy, StartedAt: metav1.NewTime(began.Add(time.Hour))}}, apply.Status.History...)
	g.Expect(destroyingSince(apply, began)).To(Equal(began.Add(time.Hour)), "a second attempt does not start over")
}

func TestDestruction_namesTheWorkspaceThatWaitsForApproval(t *testing.T) {
	g := NewWithT(t)
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "demo-vpc", DeletionTimestamp: new(metav1.Now())}}
	apply.Status.Conditions = []metav1.Condition{{Type: infrav1.DestroyedCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForApprovalReason, Message: "Deletion waits: plan plan-1"}}
	waiting, ok := fault.AsWaiting(destruction(apply))
	g.Expect(ok).To(BeTrue())
	g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForApprovalReason))
	g.Expect(waiting.Message()).To(Equal("WorkspaceTemplateApply demo-vpc: Deletion waits: plan plan-1"))
}

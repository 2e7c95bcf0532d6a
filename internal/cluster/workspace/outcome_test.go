package workspace

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func applied(changes ...func(*infrav1.WorkspaceTemplateApply)) *infrav1.WorkspaceTemplateApply {
	a := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "demo", Generation: 2}}
	a.Status.ObservedGeneration = 2
	conditions.Set(a, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 2})
	for _, change := range changes {
		change(a)
	}
	return a
}

func ready(status metav1.ConditionStatus, reason, message string) func(*infrav1.WorkspaceTemplateApply) {
	return func(a *infrav1.WorkspaceTemplateApply) {
		conditions.Set(a, metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: 2})
	}
}

func TestOutcome(t *testing.T) {
	now := metav1.NewTime(time.Unix(1, 0))
	tests := []struct {
		name   string
		apply  *infrav1.WorkspaceTemplateApply
		waits  string
		stalls string
	}{
		{name: "applied", apply: applied()},
		{name: "never reconciled", apply: &infrav1.WorkspaceTemplateApply{}, waits: "has not been reconciled yet"},
		{name: "an older generation is applied", apply: applied(func(a *infrav1.WorkspaceTemplateApply) { a.Generation = 3 }), waits: "has not been reconciled yet"},
		{name: "running", apply: applied(ready("False", infrav1.RunInProgressReason, "Applied: 3 of 9")), waits: "WorkspaceTemplateApply demo: Applied: 3 of 9"},
		{name: "waits for an approval", apply: applied(ready("False", infrav1.WaitingForApprovalReason, "Applied: plan-1")), waits: "plan-1"},
		{name: "not known", apply: applied(ready("Unknown", "InternalError", "Applied: boom")), waits: "boom"},
		{name: "failed", apply: applied(ready("False", infrav1.RunFailedReason, "Applied: denied")), stalls: "WorkspaceTemplateApply demo: Applied: denied"},
		{name: "the state of another workspace", apply: applied(ready("False", infrav1.StateForeignReason, "Applied: foreign")), stalls: "foreign"},
		{name: "an outdated state", apply: applied(ready("False", infrav1.StateOutdatedReason, "Applied: outdated")), stalls: "outdated"},
		{name: "an invalid state command", apply: applied(ready("False", infrav1.InvalidStateCommandReason, "Applied: invalid")), stalls: "invalid"},
		{name: "outputs that are too large", apply: applied(ready("False", infrav1.OutputsTooLargeReason, "OutputsWritten: large")), stalls: "large"},
		{name: "protected", apply: applied(ready("False", infrav1.ProtectedResourceReason, "Applied: would destroy")), stalls: "would destroy"},
		{name: "being deleted", apply: applied(func(a *infrav1.WorkspaceTemplateApply) { a.DeletionTimestamp = &now }), waits: "is being deleted"},
		{name: "paused", apply: applied(func(a *infrav1.WorkspaceTemplateApply) {
			conditions.Set(a, metav1.Condition{Type: infrav1.PausedCondition, Status: metav1.ConditionTrue, Reason: "Paused"})
		}), waits: "is paused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			err := Outcome(tt.apply)
			waiting, waits := fault.AsWaiting(err)
			stalled, stalls := fault.AsStalled(err)
			g.Expect(waits).To(Equal(tt.waits != ""), "%v", err)
			g.Expect(stalls).To(Equal(tt.stalls != ""), "%v", err)
			if waits {
				g.Expect(waiting.Message()).To(ContainSubstring(tt.waits))
			}
			if stalls {
				g.Expect(stalled.Message()).To(ContainSubstring(tt.stalls))
				g.Expect(stalled.Reason).To(Equal(infrav1.WorkspaceFailedReason))
			}
		})
	}
}

func TestOutput(t *testing.T) {
	g := NewWithT(t)
	a := applied(func(a *infrav1.WorkspaceTemplateApply) {
		a.Status.Outputs = map[string]infrav1.Value{"list": {Raw: []byte(`["a"]`)}, "none": {Raw: []byte("null")}}
	})
	list, text := []string(nil), "kept"
	g.Expect(Output(a, "list", &list)).To(Succeed())
	g.Expect(list).To(Equal([]string{"a"}))
	g.Expect(Output(a, "none", &text)).To(Succeed())
	g.Expect(Output(a, "missing", &text)).To(Succeed())
	g.Expect(text).To(Equal("kept"))
	g.Expect(Output(a, "list", &text)).To(MatchError(ContainSubstring("output list of WorkspaceTemplateApply demo")))
}

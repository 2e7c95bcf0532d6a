package operate

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestBlocker_isTheStepBeforeTheRun(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	ready := condition(infrav1.DependenciesReadyCondition, metav1.ConditionTrue, "DependenciesReady")
	missing := condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForTemplateReason)
	stale := condition(infrav1.AppliedCondition, metav1.ConditionTrue, infrav1.AppliedReason)
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		edit       func(*infrav1.WorkspaceTemplateApply)
		want       string
		needsUser  bool
	}{
		"new":                 {},
		"applied":             {conditions: []metav1.Condition{ready, stale}},
		"no template":         {conditions: []metav1.Condition{missing, stale}, want: infrav1.WaitingForTemplateReason, needsUser: true},
		"unknown variable":    {conditions: []metav1.Condition{ready, condition(infrav1.InputsValidCondition, metav1.ConditionFalse, infrav1.UnknownVariableReason)}, want: infrav1.UnknownVariableReason, needsUser: true},
		"another workspace":   {conditions: []metav1.Condition{condition(infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForWorkspaceReason)}, want: infrav1.WaitingForWorkspaceReason},
		"the API server":      {conditions: []metav1.Condition{condition(infrav1.InputsValidCondition, metav1.ConditionUnknown, "InternalError")}, want: "InternalError"},
		"a run is active":     {conditions: []metav1.Condition{missing}, edit: func(a *infrav1.WorkspaceTemplateApply) { a.Status.Run = &infrav1.RunStatus{} }},
		"it is being deleted": {conditions: []metav1.Condition{missing}, edit: func(a *infrav1.WorkspaceTemplateApply) { a.DeletionTimestamp = new(metav1.Now()) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			apply := workspace("net")
			apply.Status.Conditions = tc.conditions
			if tc.edit != nil {
				tc.edit(apply)
			}
			blocker := Blocker(apply)
			reason := ""
			if blocker != nil {
				reason = blocker.Reason
			}
			g.Expect(reason).To(Equal(tc.want))
			g.Expect(NeedsUser(blocker)).To(Equal(tc.needsUser))
		})
	}
}

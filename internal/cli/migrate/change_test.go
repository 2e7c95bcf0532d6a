package migrate

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// withPlan gives the workspace a plan that waits for approval.
func withPlan(reason string) func(*infrav1.WorkspaceTemplateApply) {
	return func(ws *infrav1.WorkspaceTemplateApply) {
		setConditions(ws, metav1.ConditionFalse, reason)
		ws.Status.Plan = &infrav1.PlanStatus{ID: "plan-1", Waiting: new(true)}
	}
}

func withReason(reason string) func(*infrav1.WorkspaceTemplateApply) {
	return func(ws *infrav1.WorkspaceTemplateApply) { setConditions(ws, metav1.ConditionFalse, reason) }
}

func TestChange_progress(t *testing.T) {
	errCheck := errors.New("would destroy 1 resource")
	for name, c := range map[string]struct {
		edit       func(*infrav1.WorkspaceTemplateApply)
		check      error
		approves   bool
		pending    string
		failure    string
		notApplied bool
	}{
		"has not reached the workspace": {edit: func(ws *infrav1.WorkspaceTemplateApply) { ws.Spec.TemplateRef.Name = "v1" }, pending: "CAPT has not updated workspace demo yet"},
		"is applied":                    {edit: func(*infrav1.WorkspaceTemplateApply) {}},
		"is being planned":              {edit: withReason("Planning"), pending: "Message of Planning"},
		"waits for approval":            {edit: withPlan(infrav1.WaitingForApprovalReason), approves: true, pending: "plan plan-1 is approved"},
		"changes a protected resource":  {edit: withPlan(infrav1.ProtectedResourceReason), approves: true, pending: "plan plan-1 is approved"},
		"plan does not pass":            {edit: withPlan(infrav1.WaitingForApprovalReason), check: errCheck, failure: "nothing was applied: would destroy 1 resource", notApplied: true},
		"plan waits no longer": {edit: func(ws *infrav1.WorkspaceTemplateApply) {
			withPlan(infrav1.WaitingForApprovalReason)(ws)
			ws.Status.Plan.Waiting = new(false)
		}, pending: "Message of WaitingForApproval"},
		"plan is of an older generation": {edit: func(ws *infrav1.WorkspaceTemplateApply) {
			withPlan(infrav1.WaitingForApprovalReason)(ws)
			ws.Generation++
		}, pending: "demo"},
		"plan waits for another reason": {edit: withPlan("Running"), pending: "Message of Running"},
		"module is invalid":             {edit: withReason(infrav1.ModuleInvalidReason), failure: "nothing was applied", notApplied: true},
		"apply of the approved plan failed": {edit: func(ws *infrav1.WorkspaceTemplateApply) {
			withReason(infrav1.RunFailedReason)(ws)
			ws.Spec.ApprovedPlan = "plan-1"
		}, failure: "Message of RunFailed"},
		"planning failed once":  {edit: withFailures(1), pending: "Message of Retrying"},
		"planning failed twice": {edit: withFailures(2), failure: "nothing was applied", notApplied: true},
		"planning failed for an older generation": {edit: func(ws *infrav1.WorkspaceTemplateApply) {
			withFailures(2)(ws)
			ws.Status.Conditions[1].ObservedGeneration--
		}, pending: "Message of Retrying"},
		"applying failed twice": {edit: func(ws *infrav1.WorkspaceTemplateApply) {
			withFailures(2)(ws)
			ws.Spec.ApprovedPlan = "plan-1"
		}, pending: "Message of Retrying"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ws := newWorkspace("v2")
			c.edit(ws)
			plan, pending, err := change{
				reached: func(ws *infrav1.WorkspaceTemplateApply) bool { return ws.Spec.TemplateRef.Name == "v2" },
				check:   func(*infrav1.PlanStatus) error { return c.check },
			}.progress(ws)
			if c.failure != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.failure)))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(errors.Is(err, errNotApplied)).To(Equal(c.notApplied), "only a refused change is undone")
			g.Expect(plan != nil).To(Equal(c.approves))
			g.Expect(pending).To(ContainSubstring(c.pending))
			g.Expect(pending == "").To(Equal(c.pending == ""))
		})
	}
}

func withFailures(attempts int32) func(*infrav1.WorkspaceTemplateApply) {
	return func(ws *infrav1.WorkspaceTemplateApply) {
		setConditions(ws, metav1.ConditionFalse, infrav1.RetryingReason)
		ws.Status.Failure = &infrav1.FailureStatus{Attempts: attempts}
	}
}

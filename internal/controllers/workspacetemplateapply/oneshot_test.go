package workspacetemplateapply

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// once returns the annotation of a one-shot operation.
func once(what string) string { return fmt.Sprintf(`{"id":"1","uid":"u",%s}`, what) }

const (
	replacing  = `"replace":["a.b"]`
	targeting  = `"target":["a.b"]`
	refreshing = `"refreshOnly":true`
	planning   = `"planOnly":true`
)

func TestOneShot_isExecutedOnceEvenAfterOthers(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing)
	s.Apply.Status.EndOneShot("1")
	for i := range 40 {
		s.Apply.Status.EndOneShot(fmt.Sprintf("later-%d", i))
	}
	g.Expect(s.Situation().OneShot).To(BeNil(), "an older manifest was applied again")
	for i := range 40 {
		s.Apply.Status.EndOneShot(fmt.Sprintf("last-%d", i))
	}
	g.Expect(s.Apply.Status.EndedOneShots).To(HaveLen(64))
	g.Expect(s.Apply.Status.EndedOneShots[0]).To(Equal("last-39"))
}

func TestAppliedMessage_namesAOneShotOperationThatWaits(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Status.Plan = &infrav1.PlanStatus{ID: planID, Waiting: new(true), Request: &infrav1.RunRequest{ID: "1", Arguments: "--replace a.b"}}
	g.Expect(history.AppliedMessage(s.Apply)).To(ContainSubstring("of the one-shot operation --replace a.b waits for a decision"))
}

func TestOneShot_isBoundToTheWorkspace(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing)
	g.Expect(s.Situation().OneShot).NotTo(BeNil())
	s.Apply.UID = "copy"
	g.Expect(s.Situation().OneShot).To(BeNil(), "a copy does not execute it")
	g.Expect(s.Situation().InvalidCommand).To(BeEmpty())
	s.Apply.Annotations[infrav1.OneShotAnnotation] = "{}"
	g.Expect(s.Situation().InvalidCommand).To(ContainSubstring("Annotation capt.appthrust.io/one-shot is invalid"))
}

func TestRecordResult_ofAOneShotOperation(t *testing.T) {
	changed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}}
	failed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}
	planned := terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan}
	stale := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, StalePlan: true}
	interrupted := terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient}
	tests := []struct {
		name, request string
		operation     terraform.Operation
		result        terraform.Result
		// before are the applied inputs before the run, and applied after it.
		before, applied  string
		pending, waiting bool
	}{
		{name: "a replacement", request: replacing, result: success, before: inputs, applied: inputs},
		{name: "a replacement applies what is due", request: replacing, result: success, before: "old", applied: inputs},
		{name: "an import applies what is due", request: `"import":[{"address":"a.b","id":"x"}]`, result: success, before: "old", applied: inputs},
		{name: "a target", request: targeting, result: success, before: inputs, applied: inputs},
		{name: "a target applies only a part of what is due", request: targeting, result: success, before: "old", applied: ""},
		{name: "a target that changed nothing", request: targeting, result: terraform.Result{Outcome: terraform.OutcomeNoChanges}, before: "old", applied: "old"},
		{name: "a refresh", request: refreshing, result: success, before: inputs, applied: inputs},
		{name: "a refresh that failed", request: refreshing, result: changed, before: inputs, applied: inputs},
		{name: "a refresh that was lost", request: refreshing, result: terraform.Result{Outcome: runs.OutcomeLost}, before: inputs, applied: inputs},
		{name: "a plan", request: planning, operation: terraform.OperationPlan, result: planned, before: "old", applied: "old"},
		{name: "a plan without changes applies nothing", request: planning, operation: terraform.OperationPlan, result: terraform.Result{Outcome: terraform.OutcomeNoChanges}, before: "old", applied: "old"},
		{name: "a plan that waits", request: replacing, operation: terraform.OperationPlan, result: planned, before: inputs, applied: inputs, pending: true, waiting: true},
		{name: "a plan that is denied", request: replacing, result: terraform.Result{Outcome: terraform.OutcomeDenied, Plan: aPlan}, before: inputs, applied: inputs},
		{name: "a plan that is blocked", request: replacing, result: terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"a.b"}}, before: inputs, applied: inputs},
		{name: "a stale plan is made again", request: replacing, operation: terraform.OperationApply, result: stale, before: inputs, applied: inputs, pending: true},
		{name: "a failure before anything changed", request: replacing, result: failed, before: inputs, applied: inputs},
		{name: "a failure after something changed", request: replacing, result: changed, before: inputs, applied: ""},
		{name: "an interruption before anything changed", request: replacing, result: interrupted, before: inputs, applied: inputs, pending: true},
		{name: "a loss", request: replacing, result: terraform.Result{Outcome: runs.OutcomeLost}, before: inputs, applied: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.Apply.Status.AppliedInputs = tt.before
			s.Apply.Annotations[infrav1.OneShotAnnotation] = once(tt.request)
			s.Apply.Annotations[infrav1.RequestedByAnnotation] = "1 alice"
			s.Apply.Annotations[infrav1.RunRequestedAnnotation] = "later"
			operation := tt.operation
			if operation == "" {
				operation = terraform.OperationPlanAndApply
			}
			next := decision.Decision{Operation: operation, OneShot: true}
			if operation == terraform.OperationApply {
				next.Plan = planID
			}
			endRun(g, s, startRun(g, s, next), tt.result)
			recordAll(g, s)
			status := s.Apply.Status
			g.Expect(status.OneShotEnded("1")).To(Equal(!tt.pending), "it is not repeated")
			g.Expect(status.AppliedInputs).To(Equal(tt.applied))
			g.Expect(status.Failure).To(BeNil(), "the workspace has not failed")
			g.Expect(status.Plan != nil && decision.IsWaiting(status.Plan)).To(Equal(tt.waiting))
			g.Expect(status.History[0].Request).To(HaveValue(And(HaveField("ID", "1"), HaveField("Arguments", HavePrefix("--")), HaveField("RequestedBy", "alice"))))
			g.Expect(s.Situation().Requested()).To(BeTrue(), "the operation does not fulfil another request")
		})
	}
}

func TestRecordResult_keepsACanceledOneShotOperationStopped(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	s.Apply.Annotations[infrav1.CancelRunAnnotation] = run.ID
	endRun(g, s, run, terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}})
	recordAll(g, s)
	g.Expect(s.Apply.Status.AppliedInputs).To(BeEmpty())
	expectCanceled(g, s)
}

func expectCanceled(g Gomega, s *execution.Scope) {
	_, err := decision.Next(s.Situation())
	stalled, ok := fault.AsStalled(err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(stalled.Reason).To(Equal(infrav1.RunCanceledReason))
}

func TestRecordResult_keepsACanceledWorkspaceStoppedAfterATarget(t *testing.T) {
	for name, result := range map[string]terraform.Result{
		"success": success,
		"failure": {Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			change(s)
			s.Apply.Status.Failure = &infrav1.FailureStatus{Inputs: s.Inputs.Hash, Attempts: 1, Reason: infrav1.RunCanceledReason, Message: "Run r was canceled"}
			s.Apply.Annotations[infrav1.OneShotAnnotation] = once(targeting)
			endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true}), result)
			recordAll(g, s)
			expectCanceled(g, s)
		})
	}
}

func TestRecordResult_doesNotRepeatAOneShotOperationAfterTheStatusIsLost(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing)
	endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true}), success)
	recordAll(g, s)
	for range 12 {
		recordRun(g, s, terraform.OperationPlanAndApply, success)
	}
	s.Runs = s.Runs[:len(s.Runs)-len(cleanup.SurplusRuns(s.Workspace))]
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	recordAll(g, s)
	g.Expect(s.Apply.Status.EndedOneShots).To(Equal([]string{"1"}))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.NoRun))
}

func TestEndOneShot(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*execution.Scope)
		why     string
	}{
		"still waiting":    {func(*execution.Scope) {}, ""},
		"rejected":         {annotate(infrav1.RejectPlanAnnotation, planID), "Its plan was rejected"},
		"changed inputs":   {change, "The inputs have changed"},
		"a requested run":  {annotate(infrav1.RunRequestedAnnotation, "now"), "A run of the inputs was requested"},
		"no request":       {annotate(infrav1.OneShotAnnotation, ""), "The request was withdrawn"},
		"another request":  {annotate(infrav1.OneShotAnnotation, `{"id":"2","uid":"u","planOnly":true}`), "The request was withdrawn"},
		"a copy of itself": {func(s *execution.Scope) { s.Apply.UID = "copy" }, "The request was withdrawn"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing + `,"hold":true`)
			endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlan, OneShot: true}), terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			recordAll(g, s)
			test.prepare(s)
			recorder := events.NewFakeRecorder(1)
			r := &Reconciler{Recorder: recorder}
			g.Expect(r.endOneShot(t.Context(), s)).To(Succeed())
			if test.why == "" {
				g.Expect(decision.IsWaiting(s.Apply.Status.Plan)).To(BeTrue())
				g.Expect(s.Apply.Status.EndedOneShots).To(BeEmpty())
				return
			}
			g.Expect(decision.IsWaiting(s.Apply.Status.Plan)).To(BeFalse())
			g.Expect(s.Apply.Status.EndedOneShots).To(Equal([]string{"1"}))
			g.Expect(recorder.Events).To(Receive(ContainSubstring(test.why)))
		})
	}
}

func TestEndOneShot_refuses(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	change(s)
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(refreshing)
	recorder := events.NewFakeRecorder(1)
	g.Expect((&Reconciler{Recorder: recorder}).endOneShot(t.Context(), s)).To(Succeed())
	g.Expect(s.Apply.Status.OneShotEnded("1")).To(BeTrue())
	g.Expect(recorder.Events).To(Receive(ContainSubstring("The one-shot operation --refresh-only is not executed. The inputs are not applied")))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.Decision{Operation: terraform.OperationPlanAndApply}), "the inputs are applied")
}

func TestObsolete_withdrawsAOneShotOperationThatWasChanged(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(replacing)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(s.Obsolete(run)).To(BeEmpty())
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(`"replace":["a.c"]`)
	g.Expect(s.Obsolete(run)).To(Equal("Its settings have changed"))
	delete(s.Apply.Annotations, infrav1.OneShotAnnotation)
	g.Expect(s.Obsolete(run)).To(Equal("The workspace has changed"))
}

func TestRequest_ofAOneShotOperation(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Apply.Annotations[infrav1.OneShotAnnotation] = once(targeting)
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(request.OneShot).To(HaveValue(HaveField("Target", []string{"a.b"})))
	s.Apply.Annotations[infrav1.AllowDestroyAnnotation] = "a.b"
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(request.Unprotected).To(BeEmpty(), "the resource was released for an earlier plan")
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationApply, Plan: planID, OneShot: true})
	g.Expect(request.Unprotected).To(Equal([]string{"a.b"}), "the plan is approved")
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(request.OneShot).To(BeNil())
}

package workspacetemplateapply

import (
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

// The options of runs.
var (
	replacing  = infrav1.RunOptions{Replace: []infrav1.AddressString{"a.b"}}
	targeting  = infrav1.RunOptions{Target: []infrav1.AddressString{"a.b"}}
	refreshing = infrav1.RunOptions{RefreshOnly: true}
	planning   = infrav1.RunOptions{PlanOnly: true}
	importing  = infrav1.RunOptions{Import: []infrav1.ImportedResource{{Address: "a.b", ID: "x"}}}
)

func TestAppliedMessage_namesAOneShotOperationThatWaits(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	s.Apply.Status.Plan = &infrav1.PlanStatus{ID: planID, Waiting: new(true), Request: &infrav1.RunRequest{ID: "1", Arguments: "--replace a.b"}}
	g.Expect(history.AppliedMessage(s.Apply)).To(ContainSubstring("of the one-shot operation --replace a.b waits for a decision"))
}

func TestRecordResult_ofAOneShotOperation(t *testing.T) {
	changed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, Phases: []terraform.PhaseTime{{Name: terraform.PhaseApplying}}}
	failed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal}
	planned := terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan}
	stale := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, StalePlan: true}
	interrupted := terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient}
	tests := []struct {
		name      string
		request   infrav1.RunOptions
		operation terraform.Operation
		result    terraform.Result
		// before are the applied inputs before the run, and applied after it.
		before, applied  string
		pending, waiting bool
	}{
		{name: "a replacement", request: replacing, result: success, before: inputs, applied: inputs},
		{name: "a replacement applies what is due", request: replacing, result: success, before: "old", applied: inputs},
		{name: "an import applies what is due", request: importing, result: success, before: "old", applied: inputs},
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
			ask(s, newRunOperation("once", tt.request), newRunOperation("later"))
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
			g.Expect(s.PendingOneShot() != nil).To(Equal(tt.pending), "it is not repeated")
			g.Expect(status.AppliedInputs).To(Equal(tt.applied))
			g.Expect(status.Failure).To(BeNil(), "the workspace has not failed")
			g.Expect(status.Plan.IsWaiting()).To(Equal(tt.waiting))
			g.Expect(status.History[0].Request).To(HaveValue(And(HaveField("ID", "uid-once"), HaveField("Arguments", HavePrefix("--")), HaveField("RequestedBy", "eve"))))
			g.Expect(s.Situation().Requested).To(BeTrue(), "the operation does not fulfil another request")
		})
	}
}

func TestRecordResult_keepsACanceledOneShotOperationStopped(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	ask(s, newRunOperation("once", replacing))
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	ask(s, newCancelOperation(run.ID))
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
			ask(s, newRunOperation("once", targeting))
			endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true}), result)
			recordAll(g, s)
			expectCanceled(g, s)
		})
	}
}

func TestRecordResult_doesNotRepeatAOneShotOperationAfterTheStatusIsLost(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	once := newRunOperation("once", replacing)
	ask(s, once)
	endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true}), success)
	recordAll(g, s)
	for range 12 {
		recordRun(g, s, terraform.OperationPlanAndApply, success)
	}
	s.Runs = s.Runs[:len(s.Runs)-len(cleanup.SurplusRuns(s.Workspace))]
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	recordAll(g, s)
	g.Expect(once.Status.Phase).To(Equal(infrav1.OperationSucceeded))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.NoRun))
}

func TestEndOneShot(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*execution.Scope)
		why     string
	}{
		"still waiting": {func(*execution.Scope) {}, ""},
		"rejected": {func(s *execution.Scope) {
			s.Requests.Approvals = []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionReject)}
		}, "Its plan was rejected"},
		"changed inputs":  {change, "The inputs have changed"},
		"a requested run": {asks(newRunOperation("now")), "A run of the inputs was requested"},
		"no request":      {func(s *execution.Scope) { s.Requests.Operations = nil }, "The request was withdrawn"},
		"another request": {func(s *execution.Scope) {
			s.Requests.Operations = []*infrav1.WorkspaceOperation{newRunOperation("other", planning)}
		}, "The request was withdrawn"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			ask(s, held(newRunOperation("once", replacing)))
			endRun(g, s, startRun(g, s, decision.Decision{Operation: terraform.OperationPlan, OneShot: true}), terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			recordAll(g, s)
			test.prepare(s)
			recorder := events.NewFakeRecorder(1)
			r := &Reconciler{Recorder: recorder}
			g.Expect(r.endOneShot(t.Context(), s)).To(Succeed())
			if test.why == "" {
				g.Expect(s.Apply.Status.Plan.IsWaiting()).To(BeTrue())
				g.Expect(s.PendingOneShot()).NotTo(BeNil())
				return
			}
			g.Expect(s.Apply.Status.Plan.IsWaiting()).To(BeFalse())
			if o := s.PendingOneShot(); o != nil {
				g.Expect(o.Name).To(Equal("other"))
			}
			g.Expect(recorder.Events).To(Receive(ContainSubstring(test.why)))
		})
	}
}

func TestEndOneShot_refuses(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	change(s)
	once := newRunOperation("once", refreshing)
	ask(s, once)
	recorder := events.NewFakeRecorder(1)
	g.Expect((&Reconciler{Recorder: recorder, Client: recording(nil).Client}).endOneShot(t.Context(), s)).To(Succeed())
	g.Expect(once.Status.Phase).To(Equal(infrav1.OperationFailed))
	g.Expect(recorder.Events).To(Receive(ContainSubstring("The one-shot operation --refresh-only is not executed. The inputs are not applied")))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.Decision{Operation: terraform.OperationPlanAndApply}), "the inputs are applied")
}

func TestObsolete_withdrawsAOneShotOperationThatWasDeleted(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	ask(s, newRunOperation("once", replacing))
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(s.Obsolete(run)).To(BeEmpty())
	s.Requests.Operations = []*infrav1.WorkspaceOperation{newRunOperation("other", replacing)}
	g.Expect(s.Obsolete(run)).To(Equal("The workspace has changed"))
	s.Requests.Operations = nil
	g.Expect(s.Obsolete(run)).To(Equal("The workspace has changed"))
}

func TestRequest_ofAOneShotOperation(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	ask(s, newRunOperation("once", targeting))
	request := requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(request.OneShot).To(HaveValue(HaveField("Target", []string{"a.b"})))
	s.Apply.Status.Plan.Inputs = s.InputsOf(decision.Decision{Operation: terraform.OperationPlan, OneShot: true})
	s.Requests.Approvals = []*infrav1.WorkspaceApproval{newDecision("a", planID, infrav1.DecisionApprove, func(a *infrav1.WorkspaceApproval) { a.Spec.AllowDestroy = []string{"a.b"} })}
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply, OneShot: true})
	g.Expect(request.Unprotected).To(BeEmpty(), "the resource was released for an earlier plan")
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationApply, Plan: planID, OneShot: true})
	g.Expect(request.Unprotected).To(Equal([]string{"a.b"}), "the plan is approved")
	request = requestOf(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	g.Expect(request.OneShot).To(BeNil())
}

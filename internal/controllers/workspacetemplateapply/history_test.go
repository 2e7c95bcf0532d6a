package workspacetemplateapply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/cleanup"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func diagnostics(summary string) terraform.Diagnostics {
	return terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: summary}}
}

// applied returns a workspace whose first run succeeded.
func applied(g Gomega) *execution.Scope {
	s := newScope("hello")
	recordRun(g, s, terraform.OperationPlanAndApply, success)
	s.Now = s.Now.Add(time.Minute)
	return s
}

func TestRecordResult_success(t *testing.T) {
	drifted := []terraform.Change{{Address: "a.b", Action: terraform.ActionUpdate}}
	tests := []struct {
		name      string
		operation terraform.Operation
		result    terraform.Result
		check     func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time)
	}{
		{"an apply", terraform.OperationPlanAndApply, success, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time) {
			g.Expect(status.AppliedInputs).To(Equal("second"))
			g.Expect(status.AppliedAt.Time).To(Equal(now))
			g.Expect(status.State.Resources).To(BeEquivalentTo(1))
			g.Expect(status.Drift.Resources).To(BeEmpty(), "an apply removes drift")
			g.Expect(status.Plan.Waiting).To(BeNil())
			g.Expect(status.History[0].Summary).To(Equal("0 added, 0 changed, 1 destroyed"))
		}},
		{"an apply without changes", terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time) {
			g.Expect(status.AppliedInputs).To(Equal("second"))
			g.Expect(status.AppliedAt.Time).To(Equal(now))
			g.Expect(status.History[0].Summary).To(Equal("No changes"))
		}},
		{"a plan without changes", terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeNoChanges}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, _ time.Time) {
			g.Expect(status.AppliedInputs).To(Equal("second"))
		}},
		{"a plan", terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time) {
			g.Expect(status.AppliedInputs).To(Equal(inputs), "the plan is not applied yet")
			g.Expect(status.Plan.ID).To(Equal(planID))
			g.Expect(status.Plan.Inputs).To(Equal("second"))
			g.Expect(status.Plan.Run).To(Equal("hello-r2"))
			g.Expect(status.Plan.CreatedAt.Time).To(Equal(now))
			g.Expect(*status.Plan.Waiting).To(BeTrue())
			g.Expect(status.Drift.Resources).To(HaveLen(1))
			g.Expect(status.History[0].Summary).To(Equal("0 to add, 0 to change, 1 to destroy"))
		}},
		{"a blocked plan", terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"aws_vpc.new"}}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, _ time.Time) {
			g.Expect(status.AppliedInputs).To(Equal(inputs))
			g.Expect(*status.Plan.Waiting).To(BeTrue())
			g.Expect(status.Plan.Blocked).To(ConsistOf("aws_vpc.new"))
		}},
		{"a drift check that found drift", terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: append(drifted, terraform.Change{Address: "c.d", Action: terraform.ActionDelete})}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time) {
			g.Expect(status.AppliedInputs).To(Equal(inputs))
			g.Expect(status.Drift.CheckedAt.Time).To(Equal(now))
			g.Expect(status.Drift.Resources).To(HaveLen(2))
			g.Expect(status.Plan.Run).To(Equal("hello-r1"), "the plan is kept")
			g.Expect(status.History[0].Summary).To(Equal("2 resources drifted"))
		}},
		{"a drift check without drift", terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeNoChanges}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, now time.Time) {
			g.Expect(status.Drift.CheckedAt.Time).To(Equal(now))
			g.Expect(status.Drift.Resources).To(BeEmpty())
		}},
		{"a restored snapshot", terraform.OperationRestoreState, success, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, _ time.Time) {
			g.Expect(status.AppliedInputs).To(BeEmpty(), "the inputs have to be planned again")
			g.Expect(status.Plan).To(BeNil())
		}},
		{"a destroy run", terraform.OperationDestroy, terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l"}}, func(g Gomega, status infrav1.WorkspaceTemplateApplyStatus, _ time.Time) {
			g.Expect(status.AppliedInputs).To(BeEmpty())
			g.Expect(status.Outputs).To(BeEmpty())
			g.Expect(status.State.Resources).To(BeZero())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.Inputs.Hash = "second"
			ask(s, newRestoreOperation("restore", "the-snapshot"))
			s.Apply.Status.Drift = &infrav1.DriftStatus{Resources: history.ResourceChanges(drifted)}
			s.Apply.Status.Outputs = map[string]infrav1.Value{"o": infrav1.StringValue("v")}
			s.Apply.Status.Failure = &infrav1.FailureStatus{Reason: infrav1.RetryingReason, Attempts: 3}
			run := startRun(g, s, decision.Decision{Operation: tt.operation})
			s.Now = s.Now.Add(1234 * time.Millisecond)
			endRun(g, s, run, tt.result)

			recordAll(g, s)

			status := s.Apply.Status
			g.Expect(status.Failure).To(BeNil())
			g.Expect(status.Runs).To(BeEquivalentTo(2))
			g.Expect(status.History).To(HaveLen(2))
			g.Expect(status.History[0].ID).To(Equal("hello-r2"))
			g.Expect(status.History[0].Operation).To(BeEquivalentTo(tt.operation))
			g.Expect(status.History[0].Outcome).To(BeEquivalentTo(tt.result.Outcome))
			g.Expect(status.History[0].Duration.Duration).To(Equal(1234 * time.Millisecond))
			g.Expect(s.PendingRestore() == nil).To(Equal(tt.operation == terraform.OperationRestoreState))
			tt.check(g, status, s.Now)
		})
	}
}

func TestRecordResult_failure(t *testing.T) {
	failure := func(change func(*terraform.Result)) terraform.Result {
		result := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, Diagnostics: diagnostics("no luck")}
		change(&result)
		return result
	}
	terminal := func(r *terraform.Result) { r.Class = terraform.ClassTerminal }
	tests := []struct {
		name      string
		operation terraform.Operation
		result    terraform.Result
		reason    string
		// next is the delay before the retry; negative means never.
		next    time.Duration
		message string
	}{
		{"transient", terraform.OperationPlanAndApply, failure(func(*terraform.Result) {}), infrav1.RetryingReason, 15 * time.Second, "no luck"},
		{"terminal", terraform.OperationPlanAndApply, failure(terminal), infrav1.RunFailedReason, -1, "no luck"},
		{"terminal, applying a saved plan", terraform.OperationApply, failure(terminal), infrav1.RunFailedReason, -1, "no luck"},
		{"terminal, while destroying", terraform.OperationDestroy, failure(terminal), infrav1.RunFailedReason, 15 * time.Second, "no luck"},
		{"transient, while destroying", terraform.OperationDestroy, failure(func(*terraform.Result) {}), infrav1.RetryingReason, 15 * time.Second, "no luck"},
		{"lock held", terraform.OperationPlan, failure(func(r *terraform.Result) { r.Class = terraform.ClassLockHeld }), infrav1.LockHeldReason, 15 * time.Second, "no luck"},
		{"timed out", terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeTimedOut}, infrav1.RunTimedOutReason, 15 * time.Second, "TimedOut"},
		{"interrupted", terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeInterrupted}, infrav1.RunInterruptedReason, 0, "Interrupted"},
		{"lost", terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost, Diagnostics: diagnostics("gone")}, infrav1.RunInterruptedReason, 0, "gone"},
		{"stale plan", terraform.OperationApply, failure(func(r *terraform.Result) { terminal(r); r.StalePlan = true }), infrav1.PlanStaleReason, 0, "no luck"},
		{"too large", terraform.OperationPlanAndApply, failure(func(r *terraform.Result) { terminal(r); r.StateTooLarge = true }), infrav1.StateTooLargeReason, -1, "no luck"},
		{"too large, and transient", terraform.OperationPlanAndApply, failure(func(r *terraform.Result) { r.StateTooLarge = true }), infrav1.StateTooLargeReason, -1, "no luck"},
		{"state missing", terraform.OperationPlanAndApply, failure(func(r *terraform.Result) { terminal(r); r.StateProblem = terraform.StateMissing }), infrav1.StateMissingReason, -1, "no luck"},
		{"state missing, while destroying", terraform.OperationDestroy, failure(func(r *terraform.Result) { terminal(r); r.StateProblem = terraform.StateMissing }), infrav1.StateMissingReason, 15 * time.Second, "no luck"},
		{"snapshot missing", terraform.OperationRestoreState, failure(func(r *terraform.Result) { terminal(r); r.SnapshotMissing = true }), infrav1.SnapshotNotFoundReason, -1, "no luck"},
		{"restore failed", terraform.OperationRestoreState, failure(func(*terraform.Result) {}), infrav1.RetryingReason, 15 * time.Second, "no luck"},
		{"a variable is missing", terraform.OperationPlanAndApply, failure(func(r *terraform.Result) { terminal(r); r.InvalidInputs = "Missing" }), infrav1.MissingVariableReason, -1, "no luck"},
	}
	inputsOf := map[terraform.Operation]string{terraform.OperationDestroy: runs.DestroyInputs, terraform.OperationRestoreState: "restore uid-restore"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := applied(g)
			s.Inputs.Hash = "second"
			ask(s, newRestoreOperation("restore", "the-snapshot"))
			recordRun(g, s, tt.operation, tt.result)

			f := s.Apply.Status.Failure
			g.Expect(f).NotTo(BeNil())
			g.Expect(f.Reason).To(Equal(tt.reason))
			g.Expect(f.Attempts).To(BeEquivalentTo(1))
			g.Expect(f.Message).To(ContainSubstring(tt.message))
			want := inputsOf[tt.operation]
			if want == "" {
				want = "second"
			}
			g.Expect(f.Inputs).To(Equal(want))
			if tt.next < 0 {
				g.Expect(f.NextAt.IsZero()).To(BeTrue())
			} else {
				g.Expect(f.NextAt.Time).To(Equal(s.Now.Add(tt.next)))
			}
			g.Expect(s.Apply.Status.AppliedInputs).NotTo(Equal("second"))
			g.Expect(s.Apply.Status.AppliedAt.IsZero()).To(BeFalse())
			g.Expect(s.Apply.Status.Plan == nil).To(Equal(tt.result.StalePlan), "only a stale plan is removed")
			g.Expect(s.PendingRestore()).NotTo(BeNil())
		})
	}
}

func TestRecordResult_failedDriftCheckIsNotAFailure(t *testing.T) {
	for _, outcome := range []terraform.Outcome{terraform.OutcomeFailed, terraform.OutcomeInterrupted, terraform.OutcomeTimedOut, runs.OutcomeLost} {
		g := NewWithT(t)
		s := applied(g)
		before := infrav1.ResourceChange{Address: "a.b", Action: "update"}
		s.Apply.Status.Drift = &infrav1.DriftStatus{Resources: []infrav1.ResourceChange{before}}
		recordRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: outcome, Class: terraform.ClassTerminal})
		g.Expect(s.Apply.Status.Failure).To(BeNil())
		g.Expect(s.Apply.Status.AppliedInputs).To(Equal(inputs))
		g.Expect(s.Apply.Status.Drift.CheckedAt.IsZero()).To(BeTrue(), "nothing was compared")
		g.Expect(s.Apply.Status.Drift.FailedAt.Time).To(Equal(s.Now), "the next check is scheduled")
		g.Expect(s.Apply.Status.Drift.Failure).NotTo(BeEmpty())
		g.Expect(s.Apply.Status.Drift.Resources).To(ConsistOf(before), "the previous drift is kept")

		fresh := applied(g)
		addRun(g, fresh, terraform.OperationCheckDrift, terraform.Result{Outcome: outcome})
		recordAll(g, fresh)
		g.Expect(fresh.Apply.Status.Drift.FailedAt.Time).To(Equal(fresh.Now))
		g.Expect(fresh.Apply.Status.Drift.Failures).To(BeEquivalentTo(1))
		addRun(g, fresh, terraform.OperationCheckDrift, terraform.Result{Outcome: outcome})
		recordAll(g, fresh)
		g.Expect(fresh.Apply.Status.Drift.Failures).To(BeEquivalentTo(2))
		fresh.Now = fresh.Now.Add(time.Minute)
		addRun(g, fresh, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeNoChanges})
		recordAll(g, fresh)
		g.Expect(fresh.Apply.Status.Drift.Failures).To(BeZero())
	}
}

// A user who cancels a check knows that there is no result.
func TestRecordResult_canceledDriftCheckHasNotFailed(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	s.Inputs.Policy.DriftAction = infrav1.DriftReport
	s.Apply.Status.Drift = &infrav1.DriftStatus{CheckedAt: metav1.NewTime(s.Now.Add(-time.Hour))}
	ask(s, newOperation("check", infrav1.WorkspaceOperationSpec{Type: infrav1.OperationCheckDrift}))
	run := addRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeInterrupted})
	ask(s, newCancelOperation(run.ID))
	recordAll(g, s)
	g.Expect(driftFault(s.Apply.Status.Drift, 0)).To(Succeed())
	g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeFalse())
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.NoRun), "neither at once again nor as requested")

	s.Apply.Status.Drift.Failure, s.Apply.Status.Drift.Failures = "no luck", 5
	again := addRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeInterrupted})
	ask(s, newCancelOperation(again.ID))
	recordAll(g, s)
	g.Expect(decision.DriftUnknown(s.Inputs.Policy, s.Apply.Status.Drift)).To(BeTrue(), "the last result counts")
}

func TestRecordResult_countsConsecutiveAttempts(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	failed := terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient}
	for want := int32(1); want <= 3; want++ {
		recordRun(g, s, terraform.OperationPlanAndApply, failed)
		g.Expect(s.Apply.Status.Failure.Attempts).To(Equal(want))
		g.Expect(s.Apply.Status.Failure.NextAt.Time).To(Equal(s.Now.Add(decision.Backoff(s.Policy, want))))
	}
	s.Inputs.Hash = "second"
	recordRun(g, s, terraform.OperationPlanAndApply, failed)
	g.Expect(s.Apply.Status.Failure.Attempts).To(BeEquivalentTo(1), "other inputs start at one")
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
	recordRun(g, s, terraform.OperationPlanAndApply, failed)
	g.Expect(s.Apply.Status.Failure.Attempts).To(BeEquivalentTo(1), "a success resets the count")
}

func TestRecordResult_canceled(t *testing.T) {
	tests := []struct {
		name    string
		cancel  string
		outcome terraform.Outcome
		want    infrav1.RunOutcome
		reason  string
	}{
		{"canceled", "hello-r1", terraform.OutcomeInterrupted, "Canceled", infrav1.RunCanceledReason},
		{"canceled and lost", "hello-r1", runs.OutcomeLost, "Canceled", infrav1.RunCanceledReason},
		{"an earlier run was canceled", "hello-r0", terraform.OutcomeInterrupted, "Interrupted", infrav1.RunInterruptedReason},
		{"the manager stopped", "", terraform.OutcomeInterrupted, "Interrupted", infrav1.RunInterruptedReason},
		{"failed before it was stopped", "hello-r1", terraform.OutcomeFailed, "Failed", infrav1.RetryingReason},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			ask(s, newCancelOperation(tt.cancel))
			recordRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: tt.outcome, Class: terraform.ClassTransient})

			g.Expect(s.Apply.Status.History[0].Outcome).To(Equal(tt.want))
			g.Expect(s.Apply.Status.Failure.Reason).To(Equal(tt.reason))
			if tt.want == "Canceled" {
				g.Expect(s.Apply.Status.Failure.NextAt.IsZero()).To(BeTrue(), "it is not retried")
				g.Expect(s.Apply.Status.Failure.Message).To(And(ContainSubstring("hello-r1"), ContainSubstring("captctl reconcile")))
			}
		})
	}
}

func TestRecordResult_savedPlanWaitsUntilApplied(t *testing.T) {
	tests := []struct {
		outcome terraform.Outcome
		blocked []string
		waiting bool
	}{
		{terraform.OutcomeSucceeded, nil, false},
		{terraform.OutcomeInterrupted, nil, true},
		{terraform.OutcomeFailed, nil, true},
		{terraform.OutcomeBlocked, []string{"aws_vpc.new"}, true},
	}
	for _, tt := range tests {
		t.Run(string(tt.outcome), func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			recordRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
			g.Expect(*s.Apply.Status.Plan.Waiting).To(BeTrue())

			recordRun(g, s, terraform.OperationApply, terraform.Result{Outcome: tt.outcome, Blocked: tt.blocked})

			g.Expect(s.Apply.Status.Plan.ID).To(Equal(planID))
			g.Expect(*s.Apply.Status.Plan.Waiting).To(Equal(tt.waiting))
			g.Expect(s.Apply.Status.Plan.Blocked).To(Equal(tt.blocked))
		})
	}
}

// The controller starts a blocked plan again only if it considers the resources
// released. If the runner blocks the same resources again, they were not.
// A requested run replaces a plan that waits, so it is retried until it succeeds.
func TestRecordResult_failedRequestReplacesAWaitingPlan(t *testing.T) {
	for name, test := range map[string]struct {
		result  terraform.Result
		cancel  bool
		planned bool
	}{
		"lost":     {terraform.Result{Outcome: runs.OutcomeLost}, false, true},
		"failed":   {terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient}, false, true},
		"canceled": {terraform.Result{Outcome: terraform.OutcomeInterrupted}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Policy.Approval = infrav1.ApprovalManual
			s.Inputs.Policy = s.Policy
			recordRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: &terraform.PlanSummary{ID: "plan-hello-r1", Add: 1}})
			ask(s, newRunOperation("now"))
			g.Expect(decision.Next(s.Situation())).To(Equal(decision.Decision{Operation: terraform.OperationPlan}))
			run := addRun(g, s, terraform.OperationPlan, test.result)
			if test.cancel {
				ask(s, newCancelOperation(run.ID))
			}
			recordAll(g, s)
			s.Now = s.Now.Add(time.Hour)
			next, err := decision.Next(s.Situation())
			if !test.planned {
				g.Expect(err).To(MatchError(HavePrefix(infrav1.WaitingForApprovalReason)), "the user still has the plan")
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next).To(Equal(decision.Decision{Operation: terraform.OperationPlan}))
		})
	}
}

func TestRecordResult_sameBlockTwiceIsAFailure(t *testing.T) {
	blocked := func(addresses ...string) terraform.Result {
		return terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: addresses}
	}
	tests := []struct {
		name   string
		second terraform.Operation
		result terraform.Result
		failed bool
	}{
		{"the same", terraform.OperationPlanAndApply, blocked("a.b"), true},
		{"another resource", terraform.OperationPlanAndApply, blocked("c.d"), false},
		{"fewer resources", terraform.OperationPlanAndApply, blocked(), false},
		{"the saved plan", terraform.OperationApply, terraform.Result{Outcome: terraform.OutcomeBlocked, Blocked: []string{"a.b"}}, true},
		{"another resource of the saved plan", terraform.OperationApply, terraform.Result{Outcome: terraform.OutcomeBlocked, Blocked: []string{"c.d"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			recordRun(g, s, terraform.OperationPlanAndApply, blocked("a.b"))
			g.Expect(s.Apply.Status.Failure).To(BeNil())
			recordRun(g, s, tt.second, tt.result)
			if !tt.failed {
				g.Expect(s.Apply.Status.Failure).To(BeNil())
				return
			}
			g.Expect(s.Apply.Status.Failure.Reason).To(Equal(infrav1.ProtectedResourceReason))
			g.Expect(s.Apply.Status.Failure.Message).To(ContainSubstring("a.b"))
			g.Expect(s.Apply.Status.Failure.NextAt.Time).To(BeTemporally(">", s.Now))
		})
	}
}

func TestRecordResult_handlesTheRequestOfTheRun(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	first, second := newRunOperation("first"), newRunOperation("second")
	ask(s, first)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	ask(s, second)
	endRun(g, s, run, success)
	recordAll(g, s)
	g.Expect(first.Status.Phase).To(Equal(infrav1.OperationSucceeded))
	g.Expect(second.Status.Phase).To(Equal(infrav1.OperationPending))
	g.Expect(s.Situation().Requested).To(BeTrue(), "the second request is not handled")

	s.Requests.Operations = []*infrav1.WorkspaceOperation{first}
	g.Expect(s.Situation().Requested).To(BeFalse())
	recordRun(g, s, terraform.OperationPlanAndApply, success)
	g.Expect(first.Status.Run).To(Equal(run.ID))
}

func TestRecordResult_restoresOncePerRequest(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	first := newRestoreOperation("first", "a")
	ask(s, first)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationRestoreState})
	ask(s, newRestoreOperation("second", "b"))
	endRun(g, s, run, success)
	recordAll(g, s)
	g.Expect(first.Status.Phase).To(Equal(infrav1.OperationSucceeded))
	g.Expect(s.Situation().Restore).To(Equal("uid-second"), "it was requested in the meantime")
	next, err := decision.Next(s.Situation())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.Operation).To(Equal(terraform.OperationRestoreState))
}

// The status may be lost, for example by clusterctl move, after the run that
// restored the snapshot was pruned.
func TestRecordResult_doesNotRestoreAgainAfterTheStatusIsLost(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	restore := newRestoreOperation("restore", "x")
	ask(s, restore, newRunOperation("now"))
	recordRun(g, s, terraform.OperationRestoreState, success)
	for range 12 {
		recordRun(g, s, terraform.OperationPlanAndApply, success)
	}
	surplus := cleanup.SurplusRuns(s.Workspace)
	s.Runs = s.Runs[:len(s.Runs)-len(surplus)]
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	recordAll(g, s)
	g.Expect(restore.Status.Phase).To(Equal(infrav1.OperationSucceeded))
	g.Expect(decision.Next(s.Situation())).To(Equal(decision.NoRun))
}

func TestRecordResult_limitsTheNameOfASnapshot(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	ask(s, newRestoreOperation("restore", strings.Repeat("no-such-snapshot-ß", 100)))
	recordRun(g, s, terraform.OperationRestoreState, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, SnapshotMissing: true})

	status := stored(g, s.Apply.Status)
	g.Expect(len(status.Failure.Inputs)).To(BeNumerically("<=", 128))
	s.Apply.Status = status
	_, err := decision.Next(s.Situation())
	g.Expect(err).To(MatchError(ContainSubstring(infrav1.SnapshotNotFoundReason)), "the shortened value is stable")

	recordRun(g, s, terraform.OperationRestoreState, success)
	g.Expect(s.Situation().Restore).To(BeEmpty())
}

// stored returns a status as the API server returns it.
func stored(g Gomega, status infrav1.WorkspaceTemplateApplyStatus) (back infrav1.WorkspaceTemplateApplyStatus) {
	text, err := json.Marshal(status)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(text, &back)).To(Succeed())
	return back
}

// mixedHistory returns a workspace with runs of all kinds.
func mixedHistory(g Gomega) *execution.Scope {
	s := newScope("hello")
	step := func(operation terraform.Operation, result terraform.Result) {
		s.Now = s.Now.Add(time.Minute)
		recordRun(g, s, operation, result)
	}
	step(terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, Diagnostics: diagnostics("no")})
	step(terraform.OperationPlanAndApply, success)
	step(terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: []terraform.Change{{Address: "a.b", Action: terraform.ActionUpdate}}})
	ask(s, newRunOperation("please"))
	step(terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan})
	step(terraform.OperationApply, terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 2, Resources: 3}})
	ask(s, newRestoreOperation("restore", "x"))
	step(terraform.OperationRestoreState, success)
	s.Inputs.Hash = "second"
	step(terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"aws_vpc.new"}})
	step(terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, Diagnostics: diagnostics("no")})
	step(terraform.OperationPlanAndApply, terraform.Result{Outcome: runs.OutcomeLost})
	return s
}

func TestHistory_isIdempotent(t *testing.T) {
	g := NewWithT(t)
	s := mixedHistory(g)
	before := s.Apply.Status.DeepCopy()
	recordAll(g, s)
	g.Expect(s.Apply.Status).To(Equal(*before))
}

func TestHistory_restoresALostStatus(t *testing.T) {
	g := NewWithT(t)
	s := mixedHistory(g)
	before := s.Apply.Status
	s.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{}

	recordAll(g, s)

	g.Expect(s.Apply.Status).To(Equal(before))
	g.Expect(s.Apply.Status.Runs).To(BeEquivalentTo(9))
	g.Expect(s.Apply.Status.Failure.Attempts).To(BeEquivalentTo(2))
	g.Expect(s.Apply.Status.History).To(ContainElements(
		HaveField("Request", HaveValue(HaveField("ID", "uid-please"))), HaveField("Request", HaveValue(HaveField("Arguments", "state restore x")))))
}

func TestHistory_doesNotRecordTrimmedRunsAgain(t *testing.T) {
	for _, limit := range []int32{1, 2, 10} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			s.Apply.Spec.HistoryLimit = new(limit)
			for i := range 12 {
				s.Inputs.Hash = fmt.Sprint(i)
				recordRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeNoChanges})
			}
			g.Expect(s.Apply.Status.History).To(HaveLen(int(limit)))
			g.Expect(s.Apply.Status.History[0].ID).To(Equal("hello-r12"))
			g.Expect(s.Apply.Status.AppliedInputs).To(Equal("11"))

			more := int32(50)
			s.Apply.Spec.HistoryLimit = &more
			recordAll(g, s)
			g.Expect(s.Apply.Status.AppliedInputs).To(Equal("11"), "old runs are not recorded again when the limit grows")
			g.Expect(s.Apply.Status.History).To(HaveLen(int(limit)))
		})
	}
}

func TestHistory_ignoresARunThatHasNotEnded(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	run := startRun(g, s, decision.Decision{Operation: terraform.OperationPlanAndApply})
	before := s.Apply.Status.DeepCopy()
	recordAll(g, s)
	g.Expect(s.Apply.Status).To(Equal(*before))
	g.Expect(s.Current()).To(Equal(run))
}

func TestRecordResult_limitsListsAndTexts(t *testing.T) {
	g := NewWithT(t)
	var all []terraform.Change
	var blocked []string
	for i := range 250 {
		address := fmt.Sprintf("a.b[%q]", strings.Repeat("ß", 1000)+fmt.Sprint(i))
		all = append(all, terraform.Change{Address: address, Action: terraform.ActionDelete})
		blocked = append(blocked, address)
	}
	s := newScope("hello")
	addRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeBlocked, Blocked: blocked, Plan: &terraform.PlanSummary{ID: planID, Destroy: 250, Changes: all}})
	recordRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: all})
	plan := s.Apply.Status.Plan
	recordRun(g, s, terraform.OperationPlanAndApply, terraform.Result{Outcome: terraform.OutcomeFailed, Diagnostics: diagnostics(strings.Repeat("ß", 10_000))})

	status := s.Apply.Status
	status.Plan = plan
	g.Expect(status.Plan.Changes).To(HaveLen(100))
	g.Expect(status.Plan.OmittedChanges).To(BeEquivalentTo(150))
	g.Expect(status.Plan.Blocked).To(HaveLen(100))
	g.Expect(status.Drift.Resources).To(HaveLen(100))
	for _, c := range append(status.Plan.Changes, status.Drift.Resources...) {
		g.Expect(len(c.Address)).To(BeNumerically("<=", 1024))
		g.Expect(utf8.ValidString(c.Address)).To(BeTrue())
	}
	g.Expect(len(status.Failure.Message)).To(BeNumerically("<=", 4096))
	g.Expect(len(status.History[0].Summary)).To(BeNumerically("<=", 2048))
	g.Expect(stored(g, status).Failure.Message).To(Equal(status.Failure.Message), "valid UTF-8 is stored unchanged")
}

func TestSummary(t *testing.T) {
	plan := &terraform.PlanSummary{Add: 1, Change: 2, Destroy: 3}
	tests := []struct {
		result terraform.Result
		want   string
	}{
		{terraform.Result{Outcome: terraform.OutcomeSucceeded, Plan: plan}, "1 added, 2 changed, 3 destroyed"},
		{terraform.Result{Outcome: terraform.OutcomeSucceeded}, "Succeeded"},
		{terraform.Result{Outcome: terraform.OutcomePlanned, Plan: plan}, "1 to add, 2 to change, 3 to destroy"},
		{terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: plan}, "1 to add, 2 to change, 3 to destroy"},
		{terraform.Result{Outcome: terraform.OutcomeBlocked}, "Blocked"},
		{terraform.Result{Outcome: terraform.OutcomeNoChanges}, "No changes"},
		{terraform.Result{Outcome: terraform.OutcomeFailed, Diagnostics: diagnostics("no")}, "no"},
		{terraform.Result{Outcome: terraform.OutcomeFailed}, "Failed"},
		{terraform.Result{Outcome: terraform.OutcomeTimedOut}, "TimedOut"},
		{terraform.Result{Operation: terraform.OperationCheckDrift, Outcome: terraform.OutcomeSucceeded, Drift: []terraform.Change{{}}}, "1 resources drifted"},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(history.Summary(&tt.result)).To(Equal(tt.want))
	}
}

func TestRunMeta_describesTheRun(t *testing.T) {
	g := NewWithT(t)
	s := applied(g)
	ask(s, newRestoreOperation("restore", "x"))
	tests := map[terraform.Operation]string{
		terraform.OperationPlanAndApply: inputs, terraform.OperationPlan: inputs, terraform.OperationCheckDrift: inputs,
		terraform.OperationDestroy: runs.DestroyInputs, terraform.OperationRestoreState: "restore uid-restore",
	}
	for operation, want := range tests {
		request := requestOf(g, s, decision.Decision{Operation: operation})
		run := &runs.Run{Secret: newSecret(s.RunMeta(request, infrav1.ExecutorJob))}
		g.Expect(run.Inputs()).To(Equal(want))
		g.Expect(run.Operation()).To(Equal(operation))
		g.Expect(run.Executor()).To(Equal(infrav1.ExecutorJob))
		g.Expect(run.Secret.Annotations[record.OperationsAnnotation]).To(Equal(map[bool]string{true: "uid-restore"}[operation == terraform.OperationRestoreState]))
		g.Expect(run.Secret.Annotations[record.RequestAnnotation] != "").To(Equal(operation == terraform.OperationRestoreState))
	}
}

// A run that says that it ended in a thousand years would never be retried.
func TestReconcile_retriesARunThatEndedInTheFuture(t *testing.T) {
	c := newTestController(t, append(values(), newApply())...)
	c.reconcile()
	secret := c.runSecret("hello-r1")
	future := noon.AddDate(1000, 0, 0)
	c.Expect(record.SetResult(secret, &terraform.Result{
		Outcome: terraform.OutcomeFailed, Class: terraform.ClassTransient, StartedAt: future.Add(time.Hour), FinishedAt: future,
	})).To(Succeed())
	c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
	c.reconcile()
	c.Expect(c.get().Status.Failure.NextAt.Time).To(BeTemporally("<", noon.Add(time.Hour)))
	c.Expect(c.get().Status.History[0].Duration.Duration).To(BeZero())
}

package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
)

// scenario is the results of all runs after the first successful one.
type scenario struct {
	name   string
	answer func(terraform.Operation) terraform.Result
	// prepare changes the workspace after its first run.
	prepare func(*execution.Scope)
}

func always(result terraform.Result) func(terraform.Operation) terraform.Result {
	return func(terraform.Operation) terraform.Result { return result }
}

const planID = "plan-0123456789abcdef"

var (
	aPlan   = &terraform.PlanSummary{ID: planID, Destroy: 1, Changes: []terraform.Change{{Address: "aws_vpc.new", Action: terraform.ActionReplace}}}
	success = terraform.Result{Outcome: terraform.OutcomeSucceeded, State: terraform.StateInfo{Lineage: "l", Serial: 1, Resources: 1}, Plan: aPlan}
)

func change(s *execution.Scope) { s.Inputs.Hash = "changed" }

func asks(o *infrav1.WorkspaceOperation) func(*execution.Scope) {
	return func(s *execution.Scope) { ask(s, o.DeepCopy()) }
}

func scenarios() []scenario {
	failure := func(class terraform.Class) terraform.Result {
		return terraform.Result{Outcome: terraform.OutcomeFailed, Class: class, Diagnostics: terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: "no"}}}
	}
	with := func(r terraform.Result, change func(*terraform.Result)) terraform.Result { change(&r); return r }
	blocked := terraform.Result{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"aws_vpc.new"}}
	return []scenario{
		{"success", always(success), change},
		{"a request fails", always(failure(terraform.ClassTransient)), asks(newRunOperation("now"))},
		{"a request is blocked", always(blocked), asks(newRunOperation("now"))},
		{"denied", always(terraform.Result{Outcome: terraform.OutcomeDenied, Plan: aPlan}), change},
		{"a request is denied", always(terraform.Result{Outcome: terraform.OutcomeDenied, Plan: aPlan}), asks(newRunOperation("now"))},
		{"transient", always(failure(terraform.ClassTransient)), change},
		{"terminal", always(failure(terraform.ClassTerminal)), change},
		{"lock held", always(failure(terraform.ClassLockHeld)), change},
		{"times out", always(terraform.Result{Outcome: terraform.OutcomeTimedOut, Class: terraform.ClassTransient}), change},
		{"interrupted", always(terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient}), change},
		{"lost", always(terraform.Result{Outcome: runs.OutcomeLost, Class: terraform.ClassTransient}), change},
		{"too large", always(with(failure(terraform.ClassTerminal), func(r *terraform.Result) { r.StateTooLarge = true })), change},
		{"state missing", always(with(failure(terraform.ClassTerminal), func(r *terraform.Result) { r.StateProblem = terraform.StateMissing })), change},
		{"invalid inputs", always(with(failure(terraform.ClassTerminal), func(r *terraform.Result) { r.InvalidInputs = "Missing" })), change},
		{"blocked", always(blocked), func(s *execution.Scope) { change(s); s.Inputs.Request.Protect = []string{"aws_vpc"} }},
		{"blocked by an address that the controller does not consider protected", always(blocked), func(s *execution.Scope) {
			change(s)
			s.Inputs.Request.Protect = []string{"aws_vpc.old"}
		}},
		{"always stale", func(o terraform.Operation) terraform.Result {
			if o == terraform.OperationPlan {
				return terraform.Result{Outcome: terraform.OutcomePlanned, Plan: aPlan}
			}
			return with(failure(terraform.ClassTerminal), func(r *terraform.Result) { r.StalePlan = true })
		}, func(s *execution.Scope) { change(s); s.Apply.Spec.ApprovedPlan = "plan-of-hello-r2" }},
		{"snapshot missing", always(with(failure(terraform.ClassTerminal), func(r *terraform.Result) { r.SnapshotMissing = true })), asks(newRestoreOperation("restore", "gone"))},
		{"restore is lost", always(terraform.Result{Outcome: runs.OutcomeLost}), asks(newRestoreOperation("restore", "x"))},
		{"restore succeeds", always(success), asks(newRestoreOperation("restore", "x"))},
		{"drift that a repair does not remove", func(o terraform.Operation) terraform.Result {
			if o == terraform.OperationCheckDrift {
				return terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: []terraform.Change{{Address: "a.b", Action: terraform.ActionUpdate}}}
			}
			return terraform.Result{Outcome: terraform.OutcomeNoChanges}
		}, func(*execution.Scope) {}},
		{"drift whose repair fails", func(o terraform.Operation) terraform.Result {
			if o == terraform.OperationCheckDrift {
				return terraform.Result{Outcome: terraform.OutcomeSucceeded, Drift: []terraform.Change{{Address: "a.b", Action: terraform.ActionUpdate}}}
			}
			return failure(terraform.ClassTransient)
		}, func(*execution.Scope) {}},
		{"drift checks fail", always(failure(terraform.ClassTransient)), func(*execution.Scope) {}},
	}
}

// simulateHour simulates an hour of the workspace, and returns the runs that
// started in it.
func simulateHour(g Gomega, s *execution.Scope, answer func(terraform.Operation) terraform.Result) []string {
	var runs []string
	for end := s.Now.Add(time.Hour); s.Now.Before(end); {
		recordAll(g, s)
		next, err := decision.Next(s.Situation())
		if next != decision.NoRun {
			run := startRun(g, s, next)
			runs = append(runs, fmt.Sprintf("%s %s", s.Now.Format(time.TimeOnly), next.Operation))
			g.Expect(len(runs)).To(BeNumerically("<", 40), "%v", runs)
			s.Now = s.Now.Add(time.Second)
			result := answer(next.Operation)
			if result.Plan != nil {
				plan := *result.Plan
				plan.ID = "plan-of-" + run.ID
				result.Plan = &plan
			}
			endRun(g, s, run, result)
			continue
		}
		if waiting, ok := fault.AsWaiting(err); ok && waiting.RetryAfter > 0 {
			s.Now = s.Now.Add(waiting.RetryAfter)
			continue
		}
		due, enabled := s.Situation().NextDriftCheck()
		if err != nil || !enabled {
			break
		}
		g.Expect(due).To(BeTemporally(">", s.Now), "a due check was not started")
		s.Now = due
	}
	return runs
}

// In every scenario a workspace starts runs with backoff, except for three retries
// after interruptions.
func TestDecide_backsOffInEveryScenario(t *testing.T) {
	for _, scenario := range scenarios() {
		for _, approval := range []infrav1.ApprovalMode{infrav1.ApprovalAuto, infrav1.ApprovalManual} {
			for _, action := range []infrav1.DriftAction{infrav1.DriftOff, infrav1.DriftReport, infrav1.DriftRepair} {
				for _, limit := range []int32{-1, 0} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", scenario.name, approval, action, limit), func(t *testing.T) {
						g := NewWithT(t)
						s := newScope("hello")
						policy := &s.Inputs.Policy
						policy.Approval, policy.DriftAction, policy.DriftInterval = approval, action, 10*time.Minute
						if limit >= 0 {
							policy.RetryLimit = &limit
						}
						recordRun(g, s, terraform.OperationPlanAndApply, success)
						scenario.prepare(s)

						runs := simulateHour(g, s, scenario.answer)

						g.Expect(len(runs)).To(BeNumerically("<=", 20), "%v", runs)
					})
				}
			}
		}
	}
}

func TestDecide_retriesInterruptionsWithoutDelayThreeTimes(t *testing.T) {
	g := NewWithT(t)
	s := newScope("hello")
	runs := simulateHour(g, s, always(terraform.Result{Outcome: runs.OutcomeLost}))
	g.Expect(runs[:5]).To(Equal([]string{
		"12:00:00 PlanAndApply", "12:00:01 PlanAndApply", "12:00:02 PlanAndApply", "12:00:03 PlanAndApply", "12:02:04 PlanAndApply",
	}))
}

// After an apply failed halfway, the previous inputs are not applied any more:
// going back to them requires a run.
func TestDecide_appliesPreviousInputsAfterAPartialApply(t *testing.T) {
	halfway := terraform.Result{
		Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal,
		Phases: []terraform.PhaseTime{{Name: terraform.PhasePlanning}, {Name: terraform.PhaseApplying}},
	}
	planning := halfway
	planning.Phases = halfway.Phases[:1]
	tests := []struct {
		name   string
		result terraform.Result
		then   []terraform.Result
		want   terraform.Operation
	}{
		{"failed while applying", halfway, nil, terraform.OperationPlanAndApply},
		{"lost", terraform.Result{Outcome: runs.OutcomeLost}, nil, terraform.OperationPlanAndApply},
		{"failed, and the next run was blocked", halfway, []terraform.Result{{Outcome: terraform.OutcomeBlocked, Plan: aPlan, Blocked: []string{"aws_vpc.new"}}}, terraform.OperationPlanAndApply},
		{"failed while planning", planning, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScope("hello")
			recordRun(g, s, terraform.OperationPlanAndApply, success)
			s.Inputs.Hash = "second"
			addRun(g, s, terraform.OperationPlanAndApply, tt.result)
			for i, result := range tt.then {
				s.Inputs.Hash = fmt.Sprintf("later-%d", i)
				addRun(g, s, terraform.OperationPlanAndApply, result)
			}
			recordAll(g, s)

			s.Inputs.Hash = inputs
			next, err := decision.Next(s.Situation())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next.Operation).To(Equal(tt.want))
		})
	}
}

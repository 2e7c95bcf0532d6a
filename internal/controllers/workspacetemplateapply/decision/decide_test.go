package decision

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

const (
	planID = "plan-0123456789abcdef"
	inputs = "0123456789abcdef"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// upToDate returns the situation of a workspace whose inputs are applied.
func upToDate(changes ...func(*Situation)) Situation {
	s := Situation{
		Inputs: inputs, AppliedInputs: inputs, Policy: template.Policy{
			Approval: infrav1.ApprovalAuto, DriftAction: infrav1.DriftOff, DriftInterval: time.Hour,
			MinBackoff: 15 * time.Second, MaxBackoff: 10 * time.Minute,
		},
		StateBackend: "kubernetes", ConfiguredBackend: "kubernetes", LastApplied: noon.Add(-time.Minute), Now: noon,
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func changed(s *Situation) { s.AppliedInputs = "before" }

func manual(s *Situation) { s.Policy.Approval = infrav1.ApprovalManual }

func waitingPlan(s *Situation) {
	s.Plan = &infrav1.PlanStatus{ID: planID, Inputs: inputs, Add: 1, Change: 2, Destroy: 3, Waiting: new(true)}
}

func blockedPlan(s *Situation) {
	waitingPlan(s)
	s.Protect = []string{"aws_vpc", "aws_eks_cluster.this"}
	s.Plan.Blocked = []string{"module.net.aws_vpc.this", "aws_eks_cluster.this"}
}

func approved(s *Situation) { s.ApprovedPlan = planID }

func release(addresses ...string) func(*Situation) {
	return func(s *Situation) { s.Unprotected = addresses }
}

func failed(reason string, attempts int32, next time.Duration) func(*Situation) {
	return func(s *Situation) {
		s.Failure = &infrav1.FailureStatus{Inputs: inputs, Reason: reason, Message: "it broke", Attempts: attempts, NextAt: metav1.NewTime(noon.Add(next))}
	}
}

func failedForGood(s *Situation) {
	s.Failure = &infrav1.FailureStatus{Inputs: inputs, Reason: infrav1.RunFailedReason, Message: "it broke", Attempts: 1}
}

func limited(limit int32) func(*Situation) {
	return func(s *Situation) { s.Policy.RetryLimit = &limit }
}

func drift(action infrav1.DriftAction, checked time.Duration, resources ...string) func(*Situation) {
	return func(s *Situation) {
		s.Policy.DriftAction = action
		s.Drift = &infrav1.DriftStatus{CheckedAt: metav1.NewTime(noon.Add(-checked))}
		for _, r := range resources {
			s.Drift.Resources = append(s.Drift.Resources, infrav1.ResourceChange{Address: r, Action: "update"})
		}
	}
}

func requested(s *Situation) { s.Requested = true }

// expectation is a situation with the expected decision.
type expectation struct {
	name      string
	situation Situation
	want      terraform.Operation
	plan      string
	// reason is the reason of the expected fault, contains parts of its message.
	reason   string
	stalled  bool
	after    time.Duration
	contains []string
	// oneShot is set if the run executes a one-shot operation.
	oneShot bool
}

func (e expectation) run(t *testing.T) {
	t.Helper()
	e.verify(t, Next)
}

// verify compares the decision of a function with the expected one.
func (e expectation) verify(t *testing.T, decide func(Situation) (Decision, error)) {
	t.Helper()
	g := NewWithT(t)
	next, err := decide(e.situation)
	g.Expect(next).To(Equal(Decision{Operation: e.want, Plan: e.plan, OneShot: e.oneShot}))
	if e.reason == "" {
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	if e.stalled {
		stalled, ok := fault.AsStalled(err)
		g.Expect(ok).To(BeTrue(), "%v is not a stall", err)
		g.Expect(stalled.Reason).To(Equal(e.reason))
	} else {
		waiting, ok := fault.AsWaiting(err)
		g.Expect(ok).To(BeTrue(), "%v is not a wait", err)
		g.Expect(waiting.Reason).To(Equal(e.reason))
		g.Expect(waiting.RetryAfter).To(Equal(e.after))
	}
	for _, word := range e.contains {
		g.Expect(err.Error()).To(ContainSubstring(word))
	}
}

func TestDecide_startsNoRunIfNothingChanged(t *testing.T) {
	for _, e := range []expectation{
		{name: "applied", situation: upToDate()},
		{name: "an old failure of other inputs", situation: upToDate(failedForGood, func(s *Situation) { s.Failure.Inputs = "before" })},
		{name: "a failed restore that is no longer requested", situation: upToDate(failedForGood, func(s *Situation) { s.Failure.Inputs = runs.RestoreInputs("x") })},
		{name: "a plan for other inputs", situation: upToDate(waitingPlan, func(s *Situation) { s.Plan.Inputs = "before" })},
		{name: "the plan that was applied", situation: upToDate(waitingPlan, func(s *Situation) { s.Plan.Waiting = nil })},
		{name: "a rejected plan", situation: upToDate(manual, waitingPlan, func(s *Situation) { s.RejectedPlan = planID })},
		{name: "a blocked plan that was rejected", situation: upToDate(blockedPlan, func(s *Situation) { s.RejectedPlan = planID })},
		{name: "drift that is only reported", situation: upToDate(drift(infrav1.DriftReport, time.Minute, "a.b"))},
		{name: "drift with drift.action Off", situation: upToDate(drift(infrav1.DriftOff, 99*time.Hour, "a.b"))},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_appliesChangedInputs(t *testing.T) {
	for _, e := range []expectation{
		{name: "never applied", situation: upToDate(func(s *Situation) { s.AppliedInputs, s.LastApplied, s.StateBackend = "", time.Time{}, "" }), want: terraform.OperationPlanAndApply},
		{name: "other inputs", situation: upToDate(changed), want: terraform.OperationPlanAndApply},
		{name: "other inputs than those that failed", situation: upToDate(changed, failedForGood, func(s *Situation) { s.Failure.Inputs = "others" }), want: terraform.OperationPlanAndApply},
		{name: "other inputs than those of the blocked plan", situation: upToDate(changed, blockedPlan, func(s *Situation) { s.Plan.Inputs = "others" }), want: terraform.OperationPlanAndApply},
		{name: "a plan that waited when approval became Auto", situation: upToDate(changed, waitingPlan), want: terraform.OperationPlanAndApply},
		{name: "before a drift check", situation: upToDate(changed, drift(infrav1.DriftReport, 99*time.Hour)), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_requestStartsOver(t *testing.T) {
	for _, e := range []expectation{
		{name: "up to date", situation: upToDate(requested), want: terraform.OperationPlanAndApply},
		{name: "after a terminal failure", situation: upToDate(changed, requested, failedForGood), want: terraform.OperationPlanAndApply},
		{name: "beyond the retry limit", situation: upToDate(changed, requested, failed(infrav1.RetryingReason, 9, time.Hour), limited(1)), want: terraform.OperationPlanAndApply},
		{name: "over a blocked plan", situation: upToDate(changed, requested, blockedPlan), want: terraform.OperationPlanAndApply},
		{name: "manual", situation: upToDate(requested, manual), want: terraform.OperationPlan},
		{name: "over a waiting plan", situation: upToDate(changed, requested, manual, waitingPlan), want: terraform.OperationPlan},
		{name: "over a rejected plan", situation: upToDate(changed, requested, manual, waitingPlan, func(s *Situation) { s.RejectedPlan = planID }), want: terraform.OperationPlan},
		{name: "over an approved plan", situation: upToDate(changed, requested, manual, waitingPlan, approved), want: terraform.OperationPlan},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_manualApproval(t *testing.T) {
	for _, e := range []expectation{
		{name: "no plan", situation: upToDate(changed, manual), want: terraform.OperationPlan},
		{
			name: "a plan for other inputs", want: terraform.OperationPlan,
			situation: upToDate(changed, manual, waitingPlan, approved, func(s *Situation) { s.Plan.Inputs = "others" }),
		},
		{
			name: "a plan that was already applied", want: terraform.OperationPlan,
			situation: upToDate(changed, manual, waitingPlan, approved, func(s *Situation) { s.Plan.Waiting = new(false) }),
		},
		{
			name: "a plan that is not approved", situation: upToDate(changed, manual, waitingPlan),
			reason: infrav1.WaitingForApprovalReason, contains: []string{planID, "1 to add, 2 to change, 3 to destroy", "spec.approvedPlan"},
		},
		{
			name: "approval of another plan", situation: upToDate(changed, manual, waitingPlan, func(s *Situation) { s.ApprovedPlan = "plan-fedcba9876543210" }),
			reason: infrav1.WaitingForApprovalReason, contains: []string{planID},
		},
		{
			name: "a rejected plan", situation: upToDate(changed, manual, waitingPlan, func(s *Situation) { s.RejectedPlan = planID }),
			reason: infrav1.PlanRejectedReason, stalled: true, contains: []string{planID},
		},
		{
			name: "rejection wins over approval", situation: upToDate(changed, manual, waitingPlan, approved, func(s *Situation) { s.RejectedPlan = planID }),
			reason: infrav1.PlanRejectedReason, stalled: true,
		},
		{name: "an approved plan", situation: upToDate(changed, manual, waitingPlan, approved), want: terraform.OperationApply, plan: planID},
		{
			name: "an approved plan that destroys protected resources", situation: upToDate(changed, manual, blockedPlan, approved, release("aws_eks_cluster.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, contains: []string{"module.net.aws_vpc.this", "captctl approve --allow-destroy"},
		},
		{
			name: "an approved plan whose resources are released", want: terraform.OperationApply, plan: planID,
			situation: upToDate(changed, manual, blockedPlan, approved, release("aws_eks_cluster.this", "module.net.aws_vpc.this")),
		},
		{
			name: "a requested plan for applied inputs", situation: upToDate(manual, waitingPlan),
			reason: infrav1.WaitingForApprovalReason, contains: []string{planID},
		},
		{name: "a requested plan for applied inputs, approved", situation: upToDate(manual, waitingPlan, approved), want: terraform.OperationApply, plan: planID},
		{
			name: "planning failed", situation: upToDate(changed, manual, failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute, contains: []string{"it broke"},
		},
		{
			name: "applying failed", situation: upToDate(changed, manual, waitingPlan, approved, failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute,
		},
		{
			name: "the plan was stale, and no retry is allowed", want: terraform.OperationPlan,
			situation: upToDate(changed, manual, approved, limited(0), failed(infrav1.PlanStaleReason, 1, 0)),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_protection(t *testing.T) {
	for _, e := range []expectation{
		{
			name: "blocked", situation: upToDate(changed, blockedPlan),
			reason: infrav1.ProtectedResourceReason, stalled: true,
			contains: []string{"module.net.aws_vpc.this, aws_eks_cluster.this", "captctl approve --allow-destroy"},
		},
		{
			name: "one of two released", situation: upToDate(changed, blockedPlan, release("module.net.aws_vpc.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, contains: []string{"find them: aws_eks_cluster.this."},
		},
		{
			name: "a release requires the whole address", situation: upToDate(changed, blockedPlan, release("aws_vpc.this", "aws_eks_cluster.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, contains: []string{"module.net.aws_vpc.this"},
		},
		{name: "all released", situation: upToDate(changed, blockedPlan, release("aws_eks_cluster.this", "module.net.aws_vpc.this")), want: terraform.OperationPlanAndApply},
		{name: "no longer protected", situation: upToDate(changed, blockedPlan, func(s *Situation) { s.Protect = nil }), want: terraform.OperationPlanAndApply},
		{
			name: "a requested run for applied inputs", situation: upToDate(blockedPlan),
			reason: infrav1.ProtectedResourceReason, stalled: true,
		},
		{
			name: "released, but blocked again by the runner", want: "",
			situation: upToDate(changed, blockedPlan, func(s *Situation) { s.Protect = nil }, failed(infrav1.ProtectedResourceReason, 1, time.Minute)),
			reason:    infrav1.ProtectedResourceReason, after: time.Minute,
		},
		{
			name: "blocked runs do not count as attempts", want: terraform.OperationPlanAndApply,
			situation: upToDate(changed, blockedPlan, func(s *Situation) { s.Protect = nil }, limited(0), failed(infrav1.ProtectedResourceReason, 2, 0)),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_retries(t *testing.T) {
	for _, e := range []expectation{
		{
			name: "too early", situation: upToDate(changed, failed(infrav1.RetryingReason, 2, 30*time.Second)),
			reason: infrav1.RetryingReason, after: 30 * time.Second, contains: []string{"it broke", "attempt 2 failed", "2026-01-02T12:00:30Z"},
		},
		{name: "on time", situation: upToDate(changed, failed(infrav1.RetryingReason, 2, 0)), want: terraform.OperationPlanAndApply},
		{name: "late", situation: upToDate(changed, failed(infrav1.RetryingReason, 2, -time.Hour)), want: terraform.OperationPlanAndApply},
		{
			name: "terminal", situation: upToDate(changed, failedForGood),
			reason: infrav1.RunFailedReason, stalled: true, contains: []string{"it broke"},
		},
		{name: "within the limit", situation: upToDate(changed, failed(infrav1.RetryingReason, 3, 0), limited(3)), want: terraform.OperationPlanAndApply},
		{
			name: "beyond the limit", situation: upToDate(changed, failed(infrav1.RetryingReason, 4, 0), limited(3)),
			reason: infrav1.RetryingReason, stalled: true, contains: []string{"gave up after 4 attempts", "captctl reconcile"},
		},
		{
			name: "no retries", situation: upToDate(changed, failed(infrav1.RetryingReason, 1, 0), limited(0)),
			reason: infrav1.RetryingReason, stalled: true,
		},
		{name: "an interruption does not count as an attempt", situation: upToDate(changed, failed(infrav1.RunInterruptedReason, 1, 0), limited(0)), want: terraform.OperationPlanAndApply},
		{
			name: "a requested run for applied inputs that failed", situation: upToDate(failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute,
		},
		{name: "a requested run for applied inputs that is retried", situation: upToDate(failed(infrav1.RetryingReason, 1, 0)), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_restoresFirst(t *testing.T) {
	restore := func(s *Situation) { s.Restore = "capt-snapshot-x-r3-0" }
	failedRestore := func(s *Situation) { failedForGood(s); s.Failure.Inputs = runs.RestoreInputs(s.Restore) }
	for _, e := range []expectation{
		{name: "up to date", situation: upToDate(restore), want: terraform.OperationRestoreState},
		{name: "before a change", situation: upToDate(restore, changed), want: terraform.OperationRestoreState},
		{name: "before an approved plan", situation: upToDate(restore, changed, manual, waitingPlan, approved), want: terraform.OperationRestoreState},
		{name: "after a run that failed", situation: upToDate(restore, changed, failedForGood), want: terraform.OperationRestoreState},
		{name: "a missing snapshot is not retried", situation: upToDate(restore, failedRestore), reason: infrav1.RunFailedReason, stalled: true},
		{name: "a missing snapshot is retried on request", situation: upToDate(restore, failedRestore, requested), want: terraform.OperationRestoreState},
		{
			name: "another snapshot than the missing one", want: terraform.OperationRestoreState,
			situation: upToDate(restore, failedRestore, func(s *Situation) { s.Restore = "capt-snapshot-x-r2-0" }),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_rejectsRunsAfterABackendChange(t *testing.T) {
	elsewhere := func(s *Situation) { s.StateBackend, s.ConfiguredBackend = "s3-11111111", "s3-22222222" }
	provable := func(s *Situation) { s.BackendProvable = true }
	moving := func(s *Situation) { s.Move = &terraform.Move{ID: "1"} }
	failedMove := func(s *Situation) { failedForGood(s); s.Failure.Inputs = runs.MoveInputs("1") }
	for _, e := range []expectation{
		{name: "a change", situation: upToDate(changed, elsewhere), reason: infrav1.BackendChangedReason, stalled: true, contains: []string{"s3-11111111", "s3-22222222", "captctl state adopt --backend s3-22222222"}},
		{name: "a request", situation: upToDate(requested, elsewhere), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "a restore", situation: upToDate(elsewhere, func(s *Situation) { s.Restore = "x" }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "a change that a run can prove", situation: upToDate(changed, elsewhere, provable), want: terraform.OperationPlanAndApply},
		{name: "a restore after a change that a run can prove", situation: upToDate(elsewhere, provable, func(s *Situation) { s.Restore = "x" }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "a push after a change that a run can prove", situation: upToDate(elsewhere, provable, func(s *Situation) { s.Command = &terraform.StateCommand{Command: terraform.StatePush} }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "moved by the user", situation: upToDate(changed, elsewhere, func(s *Situation) { s.MovedBackend = "s3-22222222" }), want: terraform.OperationPlanAndApply},
		{name: "moved to a third backend", situation: upToDate(changed, elsewhere, func(s *Situation) { s.MovedBackend = "s3-33333333" }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "a requested move", situation: upToDate(changed, elsewhere, moving), want: terraform.OperationMoveState},
		{name: "a requested move before a restore", situation: upToDate(elsewhere, moving, func(s *Situation) { s.Restore = "x" }), want: terraform.OperationMoveState},
		{name: "a move that failed", situation: upToDate(elsewhere, moving, failedMove), reason: infrav1.RunFailedReason, stalled: true},
		{name: "a move that failed, on request", situation: upToDate(elsewhere, moving, failedMove, requested), want: terraform.OperationMoveState},
		{name: "another move after one that failed", situation: upToDate(elsewhere, failedMove, func(s *Situation) { s.Move = &terraform.Move{ID: "2"} }), want: terraform.OperationMoveState},
		{name: "an empty state", situation: upToDate(changed, elsewhere, func(s *Situation) { s.StateBackend = "" }), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

// failedCheck is a daily check that failed some time ago, and is repeated after a wait or, if
// that is 0, after the interval.
func failedCheck(ago, wait time.Duration) func(*Situation) {
	return func(s *Situation) {
		drift(infrav1.DriftReport, 48*time.Hour)(s)
		s.LastApplied, s.Policy.DriftInterval = noon.Add(-72*time.Hour), 24*time.Hour
		s.Drift.FailedAt, s.Drift.Failure = metav1.NewTime(noon.Add(-ago)), "no luck"
		if wait > 0 {
			s.Drift.NextAt = metav1.NewTime(noon.Add(wait - ago))
		}
	}
}

func driftCheckRequested(s *Situation) { s.DriftCheckAsked = true }

func TestDecide_repairsDrift(t *testing.T) {
	repair := drift(infrav1.DriftRepair, time.Minute, "a.b")
	for _, e := range []expectation{
		{name: "drifted", situation: upToDate(repair), want: terraform.OperationPlanAndApply},
		{name: "nothing drifted", situation: upToDate(drift(infrav1.DriftRepair, time.Minute))},
		{name: "never checked", situation: upToDate(func(s *Situation) { s.Policy.DriftAction = infrav1.DriftRepair })},
		{name: "manual", situation: upToDate(repair, manual), want: terraform.OperationPlan},
		{
			name: "manual, after the previous plan was applied", want: terraform.OperationPlan,
			situation: upToDate(repair, manual, waitingPlan, approved, func(s *Situation) { s.Plan.Waiting = new(false) }),
		},
		{name: "a repair that waits for approval", situation: upToDate(repair, manual, waitingPlan), reason: infrav1.WaitingForApprovalReason},
		{name: "a rejected repair", situation: upToDate(repair, manual, waitingPlan, func(s *Situation) { s.RejectedPlan = planID }), reason: infrav1.PlanRejectedReason, stalled: true},
		{name: "a repair that would destroy protected resources", situation: upToDate(repair, blockedPlan), reason: infrav1.ProtectedResourceReason, stalled: true},
		{name: "a repair that has just failed", situation: upToDate(repair, failed(infrav1.RetryingReason, 1, 15*time.Second)), reason: infrav1.RetryingReason, after: 15 * time.Second},
		{name: "a repair that failed with a terminal error", situation: upToDate(repair, failedForGood), reason: infrav1.RunFailedReason, stalled: true},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_checksDriftWhenDue(t *testing.T) {
	checked := func(lastApplied, lastChecked time.Duration, jitter float64) func(*Situation) {
		return func(s *Situation) {
			drift(infrav1.DriftReport, lastChecked)(s)
			if lastChecked == 0 {
				s.Drift = nil
			}
			s.LastApplied, s.Jitter = noon.Add(-lastApplied), jitter
		}
	}
	for _, e := range []expectation{
		{name: "an hour after the apply", situation: upToDate(checked(time.Hour, 0, 0)), want: terraform.OperationCheckDrift},
		{name: "not before", situation: upToDate(checked(time.Hour-time.Second, 0, 0))},
		{name: "an hour after the last check", situation: upToDate(checked(9*time.Hour, time.Hour, 0)), want: terraform.OperationCheckDrift},
		{name: "not before that", situation: upToDate(checked(9*time.Hour, time.Minute, 0))},
		{name: "an apply counts as a check", situation: upToDate(checked(time.Minute, 9*time.Hour, 0))},
		{name: "latest", situation: upToDate(checked(66*time.Minute-time.Second, 0, 1))},
		{name: "later than others", situation: upToDate(checked(66*time.Minute, 0, 1)), want: terraform.OperationCheckDrift},
		{name: "sooner than others", situation: upToDate(checked(54*time.Minute, 0, -1)), want: terraform.OperationCheckDrift},
		{name: "soonest", situation: upToDate(checked(54*time.Minute-time.Second, 0, -1))},
		{name: "off", situation: upToDate(checked(99*time.Hour, 0, 0), func(s *Situation) { s.Policy.DriftAction = infrav1.DriftOff })},
		{name: "unset", situation: upToDate(checked(99*time.Hour, 0, 0), func(s *Situation) { s.Policy.DriftAction = "" })},
		{name: "soon after a check that failed", situation: upToDate(failedCheck(time.Minute, time.Minute)), want: terraform.OperationCheckDrift},
		{name: "not sooner", situation: upToDate(failedCheck(time.Minute, 2*time.Minute))},
		{name: "at most after the interval", situation: upToDate(failedCheck(24*time.Hour, 25*time.Hour)), want: terraform.OperationCheckDrift},
		{name: "after the interval, if it failed often", situation: upToDate(failedCheck(24*time.Hour, 0)), want: terraform.OperationCheckDrift},
		{name: "not before the interval, if it failed often", situation: upToDate(failedCheck(23*time.Hour, 0))},
		{name: "not again for a failure before the last check", situation: upToDate(failedCheck(time.Hour, time.Minute), func(s *Situation) { s.Drift.CheckedAt = metav1.NewTime(noon) })},
		{name: "a canceled check has not failed", situation: upToDate(failedCheck(23*time.Hour, 0), func(s *Situation) { s.Drift.Failure = "" })},
		{name: "a day after a canceled check", situation: upToDate(failedCheck(24*time.Hour, 0), func(s *Situation) { s.Drift.Failure = "" }), want: terraform.OperationCheckDrift},
		{name: "requested", situation: upToDate(driftCheckRequested), want: terraform.OperationCheckDrift},
		{name: "requested again", situation: upToDate(drift(infrav1.DriftOff, time.Minute), driftCheckRequested), want: terraform.OperationCheckDrift},
		{name: "requested before the first apply", situation: upToDate(driftCheckRequested, func(s *Situation) { s.LastApplied = time.Time{} })},
		{name: "changed inputs are applied first", situation: upToDate(changed, driftCheckRequested), want: terraform.OperationPlanAndApply},
		{name: "never applied", situation: upToDate(checked(0, 0, 0), func(s *Situation) { s.LastApplied = time.Time{} })},
	} {
		t.Run(e.name, e.run)
	}
}

func TestBackoff_startsWithTheMinimum(t *testing.T) {
	policy := template.Policy{MinBackoff: 15 * time.Second, MaxBackoff: 10 * time.Minute}
	for attempts, wait := range map[int32]time.Duration{1: 15 * time.Second, 2: 30 * time.Second, 7: 10 * time.Minute} {
		NewWithT(t).Expect(Backoff(policy, attempts)).To(Equal(wait), "after %d", attempts)
	}
}

// The metrics report what attempt decides.
func TestGaveUp_agreesWithTheDecision(t *testing.T) {
	for _, reason := range []string{infrav1.RetryingReason, infrav1.LockHeldReason, infrav1.RunTimedOutReason, infrav1.RunInterruptedReason, infrav1.PlanStaleReason, infrav1.ProtectedResourceReason} {
		for attempts := int32(1); attempts < 5; attempts++ {
			for _, limit := range []*int32{nil, new(int32(0)), new(int32(2)), new(int32(3))} {
				s := Situation{Now: noon}
				failed(reason, attempts, 1)(&s)
				s.Policy.RetryLimit = limit
				_, err := s.Attempt(Decision{}, inputs)
				_, stalled := fault.AsStalled(err)
				NewWithT(t).Expect(GaveUp(s.Policy, s.Failure)).To(Equal(stalled), "%s after %d attempts: %v", reason, attempts, err)
			}
		}
	}
}

func TestDecide_executesAStateCommand(t *testing.T) {
	command := func(s *Situation) {
		s.Command = &terraform.StateCommand{ID: "2", Command: terraform.StateList}
	}
	for _, e := range []expectation{
		{name: "up to date", situation: upToDate(command), want: terraform.OperationStateCommand},
		{name: "before a change", situation: upToDate(command, changed), want: terraform.OperationStateCommand},
		{name: "after a run that failed", situation: upToDate(command, changed, failedForGood), want: terraform.OperationStateCommand},
		{name: "after a restore", situation: upToDate(command, func(s *Situation) { s.Restore = "x" }), want: terraform.OperationRestoreState},
	} {
		t.Run(e.name, e.run)
	}
}

func TestJitter_isConstantAndSpread(t *testing.T) {
	g := NewWithT(t)
	var low, high int
	for i := range 200 {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("workspace-%d", i)}}
		j := Jitter(apply)
		g.Expect(j).To(And(BeNumerically(">=", -1), BeNumerically("<=", 1)))
		g.Expect(Jitter(apply)).To(Equal(j))
		if j < 0 {
			low++
		} else {
			high++
		}
	}
	g.Expect(low).To(BeNumerically("~", high, 60), "not evenly spread")
}

package workspacetemplateapply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

const planID = "plan-0123456789abcdef"

// atRest is a workspace whose inputs are applied.
func atRest(changes ...func(*situation)) situation {
	s := situation{
		inputs: inputs, applied: inputs, policy: testPolicy(),
		backend: "kubernetes", backendNow: "kubernetes", lastApplied: noon.Add(-time.Minute), now: noon,
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func changed(s *situation) { s.applied = "before" }
func manual(s *situation)  { s.policy.Approval = infrav1.ApprovalManual }

func waitingPlan(s *situation) {
	s.plan = &infrav1.PlanStatus{ID: planID, Inputs: inputs, Add: 1, Change: 2, Destroy: 3, Waiting: new(true)}
}

func blockedPlan(s *situation) {
	waitingPlan(s)
	s.protect = []string{"aws_vpc", "aws_eks_cluster.this"}
	s.plan.Blocked = []string{"module.net.aws_vpc.this", "aws_eks_cluster.this"}
}

func approved(s *situation) { s.approved = planID }

func allow(addresses ...string) func(*situation) {
	return func(s *situation) { s.allowed = addresses }
}

func failed(reason string, attempts int32, next time.Duration) func(*situation) {
	return func(s *situation) {
		s.failure = &infrav1.FailureStatus{Inputs: inputs, Reason: reason, Message: "it broke", Attempts: attempts, NextAt: metav1.NewTime(noon.Add(next))}
	}
}

func failedForGood(s *situation) {
	s.failure = &infrav1.FailureStatus{Inputs: inputs, Reason: infrav1.RunFailedReason, Message: "it broke", Attempts: 1}
}

func limited(limit int32) func(*situation) {
	return func(s *situation) { s.policy.RetryLimit = &limit }
}

func drift(action infrav1.DriftAction, checked time.Duration, resources ...string) func(*situation) {
	return func(s *situation) {
		s.policy.DriftAction = action
		s.drift = &infrav1.DriftStatus{CheckedAt: metav1.NewTime(noon.Add(-checked))}
		for _, r := range resources {
			s.drift.Resources = append(s.drift.Resources, infrav1.ResourceChange{Address: r, Action: "update"})
		}
	}
}

func requested(s *situation) { s.request, s.handled = "new", "old" }

// expectation is what a decision has to be.
type expectation struct {
	name      string
	situation situation
	want      terraform.Operation
	plan      string
	// reason and says are those of the fault, stalled and after what kind it is.
	reason  string
	stalled bool
	after   time.Duration
	says    []string
}

func (e expectation) run(t *testing.T) {
	g := NewWithT(t)
	next, err := decide(e.situation)
	g.Expect(next).To(Equal(decision{operation: e.want, plan: e.plan}))
	if e.reason == "" {
		g.Expect(err).NotTo(HaveOccurred())
		return
	}
	if e.stalled {
		stalled, ok := fault.AsStalled(err)
		g.Expect(ok).To(BeTrue(), "%v is no stall", err)
		g.Expect(stalled.Reason).To(Equal(e.reason))
	} else {
		waiting, ok := fault.AsWaiting(err)
		g.Expect(ok).To(BeTrue(), "%v is no wait", err)
		g.Expect(waiting.Reason).To(Equal(e.reason))
		g.Expect(waiting.RetryAfter).To(Equal(e.after))
	}
	for _, word := range e.says {
		g.Expect(err.Error()).To(ContainSubstring(word))
	}
}

func TestDecide_restsWhenNothingIsToDo(t *testing.T) {
	for _, e := range []expectation{
		{name: "applied", situation: atRest()},
		{name: "an old failure of other inputs", situation: atRest(failedForGood, func(s *situation) { s.failure.Inputs = "before" })},
		{name: "a failure to restore that was taken back", situation: atRest(failedForGood, func(s *situation) { s.failure.Inputs = restoreInputs("x") })},
		{name: "a plan for other inputs", situation: atRest(waitingPlan, func(s *situation) { s.plan.Inputs = "before" })},
		{name: "the plan that was applied", situation: atRest(waitingPlan, func(s *situation) { s.plan.Waiting = nil })},
		{name: "a plan that was turned down", situation: atRest(manual, waitingPlan, func(s *situation) { s.rejected = planID })},
		{name: "a blocked plan that was turned down", situation: atRest(blockedPlan, func(s *situation) { s.rejected = planID })},
		{name: "a request that was handled", situation: atRest(func(s *situation) { s.request, s.handled = "x", "x" })},
		{name: "a request that was handled and taken back", situation: atRest(func(s *situation) { s.handled = "x" })},
		{name: "a snapshot that was restored", situation: atRest(func(s *situation) { s.restore, s.restored = "x", "x" })},
		{name: "a restored snapshot whose annotation is gone", situation: atRest(func(s *situation) { s.restored = "x" })},
		{name: "drift that is only reported", situation: atRest(drift(infrav1.DriftReport, time.Minute, "a.b"))},
		{name: "drift that nobody wants to know of", situation: atRest(drift(infrav1.DriftOff, 99*time.Hour, "a.b"))},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_appliesWhatChanged(t *testing.T) {
	for _, e := range []expectation{
		{name: "never applied", situation: atRest(func(s *situation) { s.applied, s.lastApplied, s.backend = "", time.Time{}, "" }), want: terraform.OperationPlanAndApply},
		{name: "other inputs", situation: atRest(changed), want: terraform.OperationPlanAndApply},
		{name: "other inputs than those that failed", situation: atRest(changed, failedForGood, func(s *situation) { s.failure.Inputs = "others" }), want: terraform.OperationPlanAndApply},
		{name: "other inputs than those of the blocked plan", situation: atRest(changed, blockedPlan, func(s *situation) { s.plan.Inputs = "others" }), want: terraform.OperationPlanAndApply},
		{name: "a plan that waited when approval became Auto", situation: atRest(changed, waitingPlan), want: terraform.OperationPlanAndApply},
		{name: "drift is not looked for before", situation: atRest(changed, drift(infrav1.DriftReport, 99*time.Hour)), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_aRequestStartsOver(t *testing.T) {
	for _, e := range []expectation{
		{name: "at rest", situation: atRest(requested), want: terraform.OperationPlanAndApply},
		{name: "the first one", situation: atRest(requested, func(s *situation) { s.handled = "" }), want: terraform.OperationPlanAndApply},
		{name: "after a failure for good", situation: atRest(changed, requested, failedForGood), want: terraform.OperationPlanAndApply},
		{name: "beyond the limit", situation: atRest(changed, requested, failed(infrav1.RetryingReason, 9, time.Hour), limited(1)), want: terraform.OperationPlanAndApply},
		{name: "over a blocked plan", situation: atRest(changed, requested, blockedPlan), want: terraform.OperationPlanAndApply},
		{name: "manual", situation: atRest(requested, manual), want: terraform.OperationPlan},
		{name: "over a waiting plan", situation: atRest(changed, requested, manual, waitingPlan), want: terraform.OperationPlan},
		{name: "over a rejected plan", situation: atRest(changed, requested, manual, waitingPlan, func(s *situation) { s.rejected = planID }), want: terraform.OperationPlan},
		{name: "over an approved plan", situation: atRest(changed, requested, manual, waitingPlan, approved), want: terraform.OperationPlan},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_manualGoesFromPlanToApprovalToApply(t *testing.T) {
	for _, e := range []expectation{
		{name: "no plan", situation: atRest(changed, manual), want: terraform.OperationPlan},
		{
			name: "a plan for other inputs", want: terraform.OperationPlan,
			situation: atRest(changed, manual, waitingPlan, approved, func(s *situation) { s.plan.Inputs = "others" }),
		},
		{
			name: "a plan that was applied already", want: terraform.OperationPlan,
			situation: atRest(changed, manual, waitingPlan, approved, func(s *situation) { s.plan.Waiting = new(false) }),
		},
		{
			name: "a plan that nobody has approved", situation: atRest(changed, manual, waitingPlan),
			reason: infrav1.WaitingForApprovalReason, says: []string{planID, "1 to add, 2 to change, 3 to destroy", "spec.approvedPlan"},
		},
		{
			name: "approval of another plan", situation: atRest(changed, manual, waitingPlan, func(s *situation) { s.approved = "plan-fedcba9876543210" }),
			reason: infrav1.WaitingForApprovalReason, says: []string{planID},
		},
		{
			name: "a rejected plan", situation: atRest(changed, manual, waitingPlan, func(s *situation) { s.rejected = planID }),
			reason: infrav1.PlanRejectedReason, stalled: true, says: []string{planID},
		},
		{
			name: "rejection wins over approval", situation: atRest(changed, manual, waitingPlan, approved, func(s *situation) { s.rejected = planID }),
			reason: infrav1.PlanRejectedReason, stalled: true,
		},
		{name: "an approved plan", situation: atRest(changed, manual, waitingPlan, approved), want: terraform.OperationApply, plan: planID},
		{
			name: "an approved plan that touches what is protected", situation: atRest(changed, manual, blockedPlan, approved, allow("aws_eks_cluster.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, says: []string{"module.net.aws_vpc.this", infrav1.AllowDestroyAnnotation},
		},
		{
			name: "an approved plan whose resources are released", want: terraform.OperationApply, plan: planID,
			situation: atRest(changed, manual, blockedPlan, approved, allow("aws_eks_cluster.this", "module.net.aws_vpc.this")),
		},
		{
			name: "a plan that a person asked for although all is applied", situation: atRest(manual, waitingPlan),
			reason: infrav1.WaitingForApprovalReason, says: []string{planID},
		},
		{name: "and approved", situation: atRest(manual, waitingPlan, approved), want: terraform.OperationApply, plan: planID},
		{
			name: "planning failed", situation: atRest(changed, manual, failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute, says: []string{"it broke"},
		},
		{
			name: "applying failed", situation: atRest(changed, manual, waitingPlan, approved, failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute,
		},
		{
			name: "the plan was stale, and no retry is allowed", want: terraform.OperationPlan,
			situation: atRest(changed, manual, approved, limited(0), failed(infrav1.PlanStaleReason, 1, 0)),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_protectionStopsUntilAPersonActs(t *testing.T) {
	for _, e := range []expectation{
		{
			name: "blocked", situation: atRest(changed, blockedPlan),
			reason: infrav1.ProtectedResourceReason, stalled: true,
			says: []string{"module.net.aws_vpc.this, aws_eks_cluster.this", infrav1.AllowDestroyAnnotation},
		},
		{
			name: "one of two released", situation: atRest(changed, blockedPlan, allow("module.net.aws_vpc.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, says: []string{"resources: aws_eks_cluster.this."},
		},
		{
			name: "a release names the whole address", situation: atRest(changed, blockedPlan, allow("aws_vpc.this", "aws_eks_cluster.this")),
			reason: infrav1.ProtectedResourceReason, stalled: true, says: []string{"module.net.aws_vpc.this"},
		},
		{name: "all released", situation: atRest(changed, blockedPlan, allow("aws_eks_cluster.this", "module.net.aws_vpc.this")), want: terraform.OperationPlanAndApply},
		{name: "no longer protected", situation: atRest(changed, blockedPlan, func(s *situation) { s.protect = nil }), want: terraform.OperationPlanAndApply},
		{
			name: "a run that a person asked for although all is applied", situation: atRest(blockedPlan),
			reason: infrav1.ProtectedResourceReason, stalled: true,
		},
		{
			name: "thought to be released, and refused again", want: "",
			situation: atRest(changed, blockedPlan, func(s *situation) { s.protect = nil }, failed(infrav1.ProtectedResourceReason, 1, time.Minute)),
			reason:    infrav1.ProtectedResourceReason, after: time.Minute,
		},
		{
			name: "refusals are no failed attempts", want: terraform.OperationPlanAndApply,
			situation: atRest(changed, blockedPlan, func(s *situation) { s.protect = nil }, limited(0), failed(infrav1.ProtectedResourceReason, 2, 0)),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_failuresAreTriedAgainInTheirTime(t *testing.T) {
	for _, e := range []expectation{
		{
			name: "too early", situation: atRest(changed, failed(infrav1.RetryingReason, 2, 30*time.Second)),
			reason: infrav1.RetryingReason, after: 30 * time.Second, says: []string{"it broke", "attempt 2 failed", "2026-01-02T12:00:30Z"},
		},
		{name: "on time", situation: atRest(changed, failed(infrav1.RetryingReason, 2, 0)), want: terraform.OperationPlanAndApply},
		{name: "late", situation: atRest(changed, failed(infrav1.RetryingReason, 2, -time.Hour)), want: terraform.OperationPlanAndApply},
		{
			name: "only a change helps", situation: atRest(changed, failedForGood),
			reason: infrav1.RunFailedReason, stalled: true, says: []string{"it broke"},
		},
		{name: "within the limit", situation: atRest(changed, failed(infrav1.RetryingReason, 3, 0), limited(3)), want: terraform.OperationPlanAndApply},
		{
			name: "beyond the limit", situation: atRest(changed, failed(infrav1.RetryingReason, 4, 0), limited(3)),
			reason: infrav1.RetryingReason, stalled: true, says: []string{"given up after 4 attempts", infrav1.RunRequestedAnnotation},
		},
		{
			name: "never tried again", situation: atRest(changed, failed(infrav1.RetryingReason, 1, 0), limited(0)),
			reason: infrav1.RetryingReason, stalled: true,
		},
		{name: "an interruption is no failed attempt", situation: atRest(changed, failed(infrav1.RunInterruptedReason, 1, 0), limited(0)), want: terraform.OperationPlanAndApply},
		{
			name: "a run that was asked for and failed, although all is applied", situation: atRest(failed(infrav1.RetryingReason, 1, time.Minute)),
			reason: infrav1.RetryingReason, after: time.Minute,
		},
		{name: "and its next try", situation: atRest(failed(infrav1.RetryingReason, 1, 0)), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_restoresBeforeAnythingElse(t *testing.T) {
	restore := func(s *situation) { s.restore, s.restored = "capt-snapshot-x-r3-0", "capt-snapshot-x-r1-0" }
	failedRestore := func(s *situation) { failedForGood(s); s.failure.Inputs = restoreInputs(s.restore) }
	for _, e := range []expectation{
		{name: "at rest", situation: atRest(restore), want: terraform.OperationRestoreState},
		{name: "before a change", situation: atRest(restore, changed), want: terraform.OperationRestoreState},
		{name: "before an approved plan", situation: atRest(restore, changed, manual, waitingPlan, approved), want: terraform.OperationRestoreState},
		{name: "after a run that failed", situation: atRest(restore, changed, failedForGood), want: terraform.OperationRestoreState},
		{name: "a missing snapshot is not looked for again", situation: atRest(restore, failedRestore), reason: infrav1.RunFailedReason, stalled: true},
		{name: "unless a person asks", situation: atRest(restore, failedRestore, requested), want: terraform.OperationRestoreState},
		{
			name: "another snapshot than the missing one", want: terraform.OperationRestoreState,
			situation: atRest(restore, failedRestore, func(s *situation) { s.restore = "capt-snapshot-x-r2-0" }),
		},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_nothingRunsOverAStateElsewhere(t *testing.T) {
	elsewhere := func(s *situation) { s.backend, s.backendNow = "s3-11111111", "s3-22222222" }
	for _, e := range []expectation{
		{name: "a change", situation: atRest(changed, elsewhere), reason: infrav1.BackendChangedReason, stalled: true, says: []string{"s3-11111111", "s3-22222222", infrav1.BackendMovedAnnotation}},
		{name: "a request", situation: atRest(requested, elsewhere), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "a restore", situation: atRest(elsewhere, func(s *situation) { s.restore = "x" }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "moved by a person", situation: atRest(changed, elsewhere, func(s *situation) { s.backendMoved = "s3-22222222" }), want: terraform.OperationPlanAndApply},
		{name: "moved to yet another place", situation: atRest(changed, elsewhere, func(s *situation) { s.backendMoved = "s3-33333333" }), reason: infrav1.BackendChangedReason, stalled: true},
		{name: "nothing is in the state", situation: atRest(changed, elsewhere, func(s *situation) { s.backend = "" }), want: terraform.OperationPlanAndApply},
	} {
		t.Run(e.name, e.run)
	}
}

// driftAsked is a request for a comparison, and the one that was answered last.
func driftAsked(request, answered string) func(*situation) {
	return func(s *situation) {
		s.driftRequest = request
		if answered != "" {
			s.drift = &infrav1.DriftStatus{CheckedAt: metav1.NewTime(noon.Add(-time.Minute)), Request: answered}
		}
	}
}

func TestDecide_repairsDrift(t *testing.T) {
	repair := drift(infrav1.DriftRepair, time.Minute, "a.b")
	for _, e := range []expectation{
		{name: "drifted", situation: atRest(repair), want: terraform.OperationPlanAndApply},
		{name: "nothing drifted", situation: atRest(drift(infrav1.DriftRepair, time.Minute))},
		{name: "never compared", situation: atRest(func(s *situation) { s.policy.DriftAction = infrav1.DriftRepair })},
		{name: "manual", situation: atRest(repair, manual), want: terraform.OperationPlan},
		{
			name: "manual, over the plan that was applied before", want: terraform.OperationPlan,
			situation: atRest(repair, manual, waitingPlan, approved, func(s *situation) { s.plan.Waiting = new(false) }),
		},
		{name: "a repair that waits for approval", situation: atRest(repair, manual, waitingPlan), reason: infrav1.WaitingForApprovalReason},
		{name: "a repair that was turned down", situation: atRest(repair, manual, waitingPlan, func(s *situation) { s.rejected = planID }), reason: infrav1.PlanRejectedReason, stalled: true},
		{name: "a repair that would destroy what is protected", situation: atRest(repair, blockedPlan), reason: infrav1.ProtectedResourceReason, stalled: true},
		{name: "a repair that has just failed", situation: atRest(repair, failed(infrav1.RetryingReason, 1, 15*time.Second)), reason: infrav1.RetryingReason, after: 15 * time.Second},
		{name: "a repair that cannot succeed", situation: atRest(repair, failedForGood), reason: infrav1.RunFailedReason, stalled: true},
	} {
		t.Run(e.name, e.run)
	}
}

func TestDecide_comparesWhenItIsDue(t *testing.T) {
	compared := func(lastApplied, checked time.Duration, jitter float64) func(*situation) {
		return func(s *situation) {
			drift(infrav1.DriftReport, checked)(s)
			if checked == 0 {
				s.drift = nil
			}
			s.lastApplied, s.jitter = noon.Add(-lastApplied), jitter
		}
	}
	for _, e := range []expectation{
		{name: "an hour after the apply", situation: atRest(compared(time.Hour, 0, 0)), want: terraform.OperationCheckDrift},
		{name: "not before", situation: atRest(compared(time.Hour-time.Second, 0, 0))},
		{name: "an hour after the last comparison", situation: atRest(compared(9*time.Hour, time.Hour, 0)), want: terraform.OperationCheckDrift},
		{name: "not before that", situation: atRest(compared(9*time.Hour, time.Minute, 0))},
		{name: "an apply is as good as a comparison", situation: atRest(compared(time.Minute, 9*time.Hour, 0))},
		{name: "latest", situation: atRest(compared(66*time.Minute-time.Second, 0, 1))},
		{name: "later than others", situation: atRest(compared(66*time.Minute, 0, 1)), want: terraform.OperationCheckDrift},
		{name: "sooner than others", situation: atRest(compared(54*time.Minute, 0, -1)), want: terraform.OperationCheckDrift},
		{name: "soonest", situation: atRest(compared(54*time.Minute-time.Second, 0, -1))},
		{name: "off", situation: atRest(compared(99*time.Hour, 0, 0), func(s *situation) { s.policy.DriftAction = infrav1.DriftOff })},
		{name: "unset", situation: atRest(compared(99*time.Hour, 0, 0), func(s *situation) { s.policy.DriftAction = "" })},
		{name: "a person asks", situation: atRest(driftAsked("now", "")), want: terraform.OperationCheckDrift},
		{name: "a person asks again", situation: atRest(driftAsked("again", "now")), want: terraform.OperationCheckDrift},
		{name: "a person was answered", situation: atRest(driftAsked("now", "now"))},
		{name: "a person asks before anything is applied", situation: atRest(driftAsked("now", ""), func(s *situation) { s.lastApplied = time.Time{} })},
		{name: "what is wanted is applied before a person is answered", situation: atRest(changed, driftAsked("now", "")), want: terraform.OperationPlanAndApply},
		{name: "nothing was ever applied", situation: atRest(compared(0, 0, 0), func(s *situation) { s.lastApplied = time.Time{} })},
	} {
		t.Run(e.name, e.run)
	}
}

func TestBackoff_growsUpToItsCap(t *testing.T) {
	policy := template.Policy{MinBackoff: 15 * time.Second, MaxBackoff: 10 * time.Minute}
	want := map[int32]time.Duration{
		1: 15 * time.Second, 2: 30 * time.Second, 3: time.Minute, 4: 2 * time.Minute, 5: 4 * time.Minute, 6: 8 * time.Minute,
		7: 10 * time.Minute, 8: 10 * time.Minute, 1 << 30: 10 * time.Minute,
	}
	for attempts, wait := range want {
		NewWithT(t).Expect(backoff(policy, attempts)).To(Equal(wait), "after %d", attempts)
	}
	even := template.Policy{MinBackoff: time.Minute, MaxBackoff: time.Minute}
	for _, attempts := range []int32{1, 2, 99} {
		NewWithT(t).Expect(backoff(even, attempts)).To(Equal(time.Minute))
	}
}

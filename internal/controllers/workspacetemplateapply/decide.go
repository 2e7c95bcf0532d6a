package workspacetemplateapply

import (
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// situation is everything that decides what happens next to a workspace that
// has no run going on.
type situation struct {
	// inputs is the hash of what is wanted, applied that of what is there.
	inputs, applied string
	policy          template.Policy
	// request is what a person asked for last, handled what was answered.
	request, handled string
	// restore is the snapshot that a person wants back, restored the one that
	// was put back last.
	restore, restored string
	// backend is where the state is, backendNow where it is asked for, and
	// backendMoved where a person says that it now is.
	backend, backendNow, backendMoved string
	// approved and rejected name plans.
	approved, rejected string
	// protect are the protected resources, allowed those that a person released.
	protect, allowed []string
	plan             *infrav1.PlanStatus
	failure          *infrav1.FailureStatus
	drift            *infrav1.DriftStatus
	// driftRequest is a person's wish to have reality compared now.
	driftRequest string
	// lastApplied is when something was applied last.
	lastApplied time.Time
	// jitter is between -1 and 1, and the workspace's own.
	jitter float64
	now    time.Time
}

// decision is what happens next: a run of an operation, or nothing. The error
// is a fault that says what is waited for.
type decision struct {
	operation terraform.Operation
	// plan is the plan that an Apply applies.
	plan string
}

var nothing = decision{}

// decide chooses the next action. It reads nothing and asks nobody.
func decide(s situation) (decision, error) {
	if err := s.stateElsewhere(); err != nil {
		return nothing, err
	}
	if s.restore != "" && s.restore != s.restored {
		restore := decision{operation: terraform.OperationRestoreState}
		if s.requested() {
			return restore, nil
		}
		return s.attempt(restore, restoreInputs(s.restore))
	}
	if s.inputs == s.applied && !s.requested() && !s.unfinished() {
		return s.checkDrift()
	}
	if s.requested() {
		// A person's request starts over: it outdoes failures and kept plans.
		if s.policy.Approval == infrav1.ApprovalManual {
			return decision{operation: terraform.OperationPlan}, nil
		}
		return decision{operation: terraform.OperationPlanAndApply}, nil
	}
	if s.policy.Approval == infrav1.ApprovalManual {
		return s.manual()
	}
	if s.waiting() {
		if blocked := s.blocked(); len(blocked) > 0 {
			return nothing, protected(blocked)
		}
	}
	return s.attempt(decision{operation: terraform.OperationPlanAndApply}, s.inputs)
}

// stateElsewhere refuses every run while the state is in another backend than
// the one that the run would look into.
func (s situation) stateElsewhere() error {
	if s.backend == "" || s.backendNow == s.backend || s.backendMoved == s.backendNow {
		return nil
	}
	return fault.Stall(infrav1.BackendChangedReason,
		"The state is in the backend %s, but %s is now asked for; a run would begin with an empty state and make everything again. Move the state (state pull, state push), then set the annotation %s to %s; or change the WorkspaceProviderConfig back",
		s.backend, s.backendNow, infrav1.BackendMovedAnnotation, s.backendNow)
}

// requested tells whether a person asks for a run. One who takes the request
// back asks for nothing.
func (s situation) requested() bool { return s.request != "" && s.request != s.handled }

// unfinished tells whether something is left to do although the inputs are
// applied: drift to repair, a plan that waits and was not turned down, a run
// that failed.
func (s situation) unfinished() bool {
	repair := s.policy.DriftAction == infrav1.DriftRepair && s.drift != nil && len(s.drift.Resources) > 0
	return repair || s.waiting() && s.rejected != s.plan.ID || s.failure != nil && s.failure.Inputs == s.inputs
}

// waiting tells whether a plan for the present inputs has not been applied.
func (s situation) waiting() bool {
	return s.plan != nil && s.plan.Inputs == s.inputs && s.plan.Waiting != nil && *s.plan.Waiting
}

// manual goes from plan to approval to apply.
func (s situation) manual() (decision, error) {
	if !s.waiting() {
		return s.attempt(decision{operation: terraform.OperationPlan}, s.inputs)
	}
	switch {
	case s.rejected == s.plan.ID:
		return nothing, fault.Stall(infrav1.PlanRejectedReason, "Plan %s was rejected: change the inputs, or ask for another plan", s.plan.ID)
	case s.approved != s.plan.ID:
		return nothing, fault.Wait(infrav1.WaitingForApprovalReason, "Plan %s (%s) waits for approval: set spec.approvedPlan to %s", s.plan.ID, planSummary(s.plan), s.plan.ID)
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return nothing, protected(blocked)
	}
	return s.attempt(decision{operation: terraform.OperationApply, plan: s.plan.ID}, s.inputs)
}

// blocked lists the protected resources that the plan would destroy and nobody
// has released. The runner checks again, with all of them.
func (s situation) blocked() []string {
	now := terraform.Request{Protect: s.protect, Unprotected: s.allowed}
	return slices.DeleteFunc(slices.Clone(s.plan.Blocked), func(address string) bool { return !now.Protected(address) })
}

func protected(addresses []string) error {
	return fault.Stall(infrav1.ProtectedResourceReason, "%s", protectedMessage(addresses))
}

func protectedMessage(addresses []string) string {
	return fmt.Sprintf("The plan would destroy or replace protected resources: %s. To allow it, name them in the annotation %s",
		strings.Join(addresses, ", "), infrav1.AllowDestroyAnnotation)
}

// attempt makes a decision unless the same has just failed.
func (s situation) attempt(d decision, inputs string) (decision, error) {
	f := s.failure
	if f == nil || f.Inputs != inputs {
		return d, nil
	}
	message := f.Message
	if f.NextAt.IsZero() {
		return nothing, fault.Stall(f.Reason, "%s", message)
	}
	if limit := s.policy.RetryLimit; limit != nil && f.Attempts > *limit && inEarnest(f) {
		return nothing, fault.Stall(f.Reason, "%s (given up after %d attempts; change the inputs, or ask for a run by the annotation %s)", message, f.Attempts, infrav1.RunRequestedAnnotation)
	}
	if wait := f.NextAt.Sub(s.now); wait > 0 {
		return nothing, fault.WaitFor(wait, f.Reason, "%s (attempt %d failed, the next begins at %s)", message, f.Attempts, f.NextAt.UTC().Format(time.RFC3339))
	}
	return d, nil
}

// inEarnest tells whether a run really tried: not one that was interrupted or
// lost, whose plan was outdated, or which protection refused.
func inEarnest(f *infrav1.FailureStatus) bool {
	return !slices.Contains([]string{infrav1.RunInterruptedReason, infrav1.PlanStaleReason, infrav1.ProtectedResourceReason}, f.Reason)
}

// checkDrift starts a comparison when it is due.
func (s situation) checkDrift() (decision, error) {
	if due, on := s.driftDue(); s.driftRequested() || on && !s.now.Before(due) {
		return decision{operation: terraform.OperationCheckDrift}, nil
	}
	return nothing, nil
}

// driftRequested tells whether a person wants reality compared now. What was
// never applied has nothing to be compared with.
func (s situation) driftRequested() bool {
	return s.driftRequest != "" && !s.lastApplied.IsZero() && (s.drift == nil || s.drift.Request != s.driftRequest)
}

// driftDue tells when the next comparison is due, and whether there is one.
func (s situation) driftDue() (time.Time, bool) {
	if s.policy.DriftAction == infrav1.DriftOff || s.policy.DriftAction == "" || s.lastApplied.IsZero() {
		return time.Time{}, false
	}
	last := s.lastApplied
	if s.drift != nil && s.drift.CheckedAt.After(last) {
		last = s.drift.CheckedAt.Time
	}
	spread := time.Duration(float64(s.policy.DriftInterval) * 0.1 * s.jitter)
	return last.Add(s.policy.DriftInterval + spread), true
}

// backoff is the wait after the given number of failures in a row.
func backoff(policy template.Policy, attempts int32) time.Duration {
	wait := policy.MinBackoff
	for range attempts - 1 {
		if wait *= 2; wait >= policy.MaxBackoff {
			return policy.MaxBackoff
		}
	}
	return wait
}

func planSummary(p *infrav1.PlanStatus) string {
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
}

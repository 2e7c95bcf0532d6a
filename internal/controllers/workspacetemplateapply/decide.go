package workspacetemplateapply

import (
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// situation is everything that decides what a workspace without a running run
// does next.
type situation struct {
	// inputs is the hash of the desired inputs, appliedInputs that of the inputs
	// that were applied last.
	inputs, appliedInputs string
	policy                template.Policy
	// request is the user's latest run request, handledRequest the latest one
	// that a run fulfilled.
	request, handledRequest string
	// restore is the snapshot that the user wants to restore, restored the
	// snapshot that was restored last.
	restore, restored string
	// stateBackend is the backend that has the state, configuredBackend the one
	// that the next run uses, and movedBackend the one to which the user says that
	// the state was moved.
	stateBackend, configuredBackend, movedBackend string
	// move is the user's request to move the state to the configured backend, nil if
	// there is none.
	move *terraform.Move
	// command is the user's latest state command, handledCommand the ID of the one
	// that was executed last.
	command        *terraform.StateCommand
	handledCommand string
	// oneShot is the one-shot operation that the user requested last. It is nil if it has
	// ended.
	oneShot *terraform.OneShot
	// invalidCommand describes an invalid state command, move or one-shot operation.
	invalidCommand string
	// approvedPlan and rejectedPlan are plan IDs.
	approvedPlan, rejectedPlan string
	// protect lists the protected resources, unprotected the ones that the user
	// released.
	protect, unprotected []string
	// policies is the digest of the policies that apply to the workspace.
	policies string
	plan     *infrav1.PlanStatus
	failure  *infrav1.FailureStatus
	drift    *infrav1.DriftStatus
	// driftRequest is the user's latest request for a drift check.
	driftRequest string
	// lastApplied is the time of the last successful apply.
	lastApplied time.Time
	// former is what only the template of the existing resources requires.
	former former
	// isOwned is set if the workspace belongs to a cluster or a machine.
	isOwned bool
	// jitter is between -1 and 1. It is constant for a workspace.
	jitter float64
	now    time.Time
}

// decision is the run that a workspace starts next.
type decision struct {
	operation terraform.Operation
	// plan is the plan that an Apply applies.
	plan string
	// oneShot is set if the run executes the one-shot operation of the user.
	oneShot bool
}

// noRun is the decision to start no run.
var noRun = decision{}

// decide returns the run to start. An error is a fault that explains why no run
// starts.
func decide(s situation) (decision, error) {
	if s.invalidCommand != "" {
		return noRun, fault.Stall(infrav1.InvalidStateCommandReason, "%s. Correct or remove the annotation", s.invalidCommand)
	}
	if next, err := s.decideBackend(); err != nil || next != noRun {
		return next, err
	}
	if next, err := s.decideStateChange(); err != nil || next != noRun {
		return next, err
	}
	applied := s.inputs == s.appliedInputs && !s.requested() && !s.unfinished()
	if next, err := s.decideOneShot(); next != noRun || err != nil && !applied {
		return next, err
	}
	if applied {
		// An operation may wait for approval meanwhile.
		return s.decideDriftCheck()
	}
	if s.requested() {
		// A request starts over: it overrides failures and plans.
		if s.policy.Approval == infrav1.ApprovalManual {
			return decision{operation: terraform.OperationPlan}, nil
		}
		return decision{operation: terraform.OperationPlanAndApply}, nil
	}
	if s.policiesChanged() {
		// They decide about another plan, because the resources may have changed as well.
		if s.policy.Approval == infrav1.ApprovalManual {
			return s.attempt(decision{operation: terraform.OperationPlan}, s.inputs)
		}
		return s.attempt(decision{operation: terraform.OperationPlanAndApply}, s.inputs)
	}
	if s.planWaits() && s.plan.PolicyAction == infrav1.PolicyDeny {
		return noRun, deniedFault(s.plan, "Plan "+s.plan.ID+" is denied", "")
	}
	if s.policy.Approval == infrav1.ApprovalManual || s.planWaits() && s.plan.PolicyAction == infrav1.PolicyRequireApproval {
		return s.decideManual()
	}
	if s.planWaits() {
		if blocked := s.blocked(); len(blocked) > 0 {
			return noRun, s.protectedFault(blocked)
		}
	}
	return s.attempt(decision{operation: terraform.OperationPlanAndApply}, s.inputs)
}

// decideStateChange returns the run that restores a snapshot or executes a state
// command, if the user requested one. It precedes all runs that use the state.
func (s situation) decideStateChange() (decision, error) {
	if s.restore != "" && s.restore != s.restored {
		restore := decision{operation: terraform.OperationRestoreState}
		if s.requested() {
			return restore, nil
		}
		return s.attempt(restore, restoreInputs(s.restore))
	}
	if s.command != nil && s.command.ID != s.handledCommand {
		return decision{operation: terraform.OperationStateCommand}, nil
	}
	return noRun, nil
}

// decideBackend rejects all runs while the state is in another backend than the
// configured one, except the run that moves it.
func (s situation) decideBackend() (decision, error) {
	if s.move != nil {
		move := decision{operation: terraform.OperationMoveState}
		if s.requested() {
			return move, nil
		}
		return s.attempt(move, moveInputs(s.move.ID))
	}
	if s.stateBackend == "" || s.stateBackend == s.configuredBackend || s.movedBackend == s.configuredBackend {
		return noRun, nil
	}
	return noRun, fault.Stall(infrav1.BackendChangedReason,
		"The state is in backend %s, but backend %s is configured: a run would start with an empty state and create all resources again. Move the state with captctl state move, or change the WorkspaceProviderConfig back. If you have moved it yourself, set the annotation %s to %s",
		s.stateBackend, s.configuredBackend, infrav1.BackendMovedAnnotation, s.configuredBackend)
}

// requested reports whether the user requested a run that has not been handled.
func (s situation) requested() bool { return s.request != "" && s.request != s.handledRequest }

// unfinished reports whether something remains to be done although the inputs
// are applied: drift to repair, a plan that waits and was not rejected, or a
// failed run.
func (s situation) unfinished() bool {
	repair := s.policy.DriftAction == infrav1.DriftRepair && s.drift != nil && len(s.drift.Resources) > 0
	return repair || s.planWaits() && s.rejectedPlan != s.plan.ID || s.failure != nil && s.failure.Inputs == s.inputs
}

// planWaits reports whether a plan for the desired inputs has not been applied.
func (s situation) planWaits() bool {
	return s.plan != nil && s.plan.Inputs == s.inputs && isWaiting(s.plan)
}

func isWaiting(plan *infrav1.PlanStatus) bool { return plan.Waiting != nil && *plan.Waiting }

// policiesChanged reports whether other policies decided about the plan that waits. A
// rejected plan stays rejected.
func (s situation) policiesChanged() bool {
	return s.planWaits() && s.rejectedPlan != s.plan.ID && s.plan.PolicyDigest != s.policies
}

// decideManual decides for approval: Manual, from plan to approval to apply.
func (s situation) decideManual() (decision, error) {
	if !s.planWaits() {
		return s.attempt(decision{operation: terraform.OperationPlan}, s.inputs)
	}
	switch {
	case s.rejectedPlan == s.plan.ID:
		return noRun, fault.Stall(infrav1.PlanRejectedReason, "Plan %s was rejected%s: change the inputs or request another plan", s.plan.ID, quoted(s.plan.Comment))
	case s.approvedPlan != s.plan.ID:
		return noRun, fault.Wait(infrav1.WaitingForApprovalReason, "Plan %s (%s) waits for approval: set spec.approvedPlan to %s%s%s", s.plan.ID, planSummary(s.plan), s.plan.ID, approvalCause(s.plan), s.former.approval)
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return noRun, s.protectedFault(blocked)
	}
	return s.attempt(decision{operation: terraform.OperationApply, plan: s.plan.ID}, s.inputs)
}

// blocked returns the protected resources that the plan would destroy and that
// the user has not released. The runner checks the whole plan again.
func (s situation) blocked() []string {
	request := terraform.Request{Protect: s.protect, Unprotected: s.unprotected}
	return slices.DeleteFunc(slices.Clone(s.plan.Blocked), func(address string) bool { return !request.Protected(address) })
}

func (s situation) protectedFault(addresses []string) error {
	return fault.Stall(infrav1.ProtectedResourceReason, "%s%s", protectedMessage(addresses), s.former.protect)
}

func protectedMessage(addresses []string) string {
	return fmt.Sprintf("The plan would destroy or replace protected resources, or does not find them: %s. To allow this, list them in the annotation %s",
		strings.Join(addresses, ", "), infrav1.AllowDestroyAnnotation)
}

// attempt returns a decision unless a run with the same inputs failed and may not
// be retried, or not yet.
func (s situation) attempt(d decision, inputs string) (decision, error) {
	f := s.failure
	if f == nil || f.Inputs != inputs {
		return d, nil
	}
	if f.NextAt.IsZero() {
		return noRun, fault.Stall(f.Reason, "%s", f.Message)
	}
	if GaveUp(s.policy, f) {
		return noRun, fault.Stall(f.Reason, "%s (gave up after %d attempts; change the inputs or request a run with the annotation %s)", f.Message, f.Attempts, infrav1.RunRequestedAnnotation)
	}
	if wait := f.NextAt.Sub(s.now); wait > 0 {
		return noRun, fault.WaitFor(wait, f.Reason, "%s (attempt %d failed; the next one starts at %s)", f.Message, f.Attempts, f.NextAt.UTC().Format(time.RFC3339))
	}
	return d, nil
}

// countsAsAttempt reports whether a failure counts towards the retry limit. Runs
// that were interrupted or lost, that had a stale plan, or that protection
// blocked do not count.
func countsAsAttempt(f *infrav1.FailureStatus) bool {
	return !slices.Contains([]string{infrav1.RunInterruptedReason, infrav1.PlanStaleReason, infrav1.ProtectedResourceReason}, f.Reason)
}

// decideDriftCheck starts a drift check if one is due.
func (s situation) decideDriftCheck() (decision, error) {
	if due, enabled := s.nextDriftCheck(); s.driftCheckRequested() || enabled && !s.now.Before(due) {
		return decision{operation: terraform.OperationCheckDrift}, nil
	}
	return noRun, nil
}

// driftCheckRequested reports whether the user requested a drift check that has
// not been handled. Without a previous apply there is nothing to check.
func (s situation) driftCheckRequested() bool {
	return s.driftRequest != "" && !s.lastApplied.IsZero() && (s.drift == nil || s.drift.Request != s.driftRequest)
}

// nextDriftCheck returns when the next periodic drift check is due. It returns
// false if periodic checks are disabled or nothing has been applied.
func (s situation) nextDriftCheck() (time.Time, bool) {
	if !ChecksDrift(s.policy) || s.lastApplied.IsZero() {
		return time.Time{}, false
	}
	last := s.lastApplied
	if s.drift != nil && s.drift.CheckedAt.After(last) {
		last = s.drift.CheckedAt.Time
	}
	wait := s.policy.DriftInterval + time.Duration(float64(s.policy.DriftInterval)*0.1*s.jitter)
	if s.drift != nil && s.drift.FailedAt.After(last) {
		last = s.drift.FailedAt.Time
	}
	due := last.Add(wait)
	if checkFailed(s.drift) && !s.drift.NextAt.IsZero() && s.drift.NextAt.Time.Before(due) {
		due = s.drift.NextAt.Time
	}
	return due, true
}

// ChecksDrift reports whether a policy enables periodic drift checks.
func ChecksDrift(policy template.Policy) bool {
	return policy.DriftAction != infrav1.DriftOff && policy.DriftAction != ""
}

// backoff returns the delay after the given number of consecutive failures.
func backoff(policy template.Policy, attempts int32) time.Duration {
	return reconcile.Backoff(policy.MinBackoff, policy.MaxBackoff, attempts-1)
}

func planSummary(p *infrav1.PlanStatus) string {
	if p.Refresh > 0 {
		return fmt.Sprintf("%d resources of the state to update", p.Refresh)
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
}

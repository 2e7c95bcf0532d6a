// Package decision chooses the next run of a workspace. It is pure.
package decision

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// MaxQuote is the size of a comment in messages, in bytes.
const MaxQuote = 256

// Quoted returns a comment as the continuation of a message.
func Quoted(comment string) string {
	if comment == "" {
		return ""
	}
	return fmt.Sprintf(" with the comment %q", message.Truncate(comment, MaxQuote))
}

// Situation is everything that decides what a workspace without a running run
// does next.
type Situation struct {
	// Inputs is the hash of the desired inputs, AppliedInputs that of the inputs
	// that were applied last.
	Inputs, AppliedInputs string
	Policy                template.Policy
	// Requested and DriftCheckAsked are set if a user requested a run, or a drift check, that
	// was not tried yet.
	Requested, DriftCheckAsked bool
	// Restore is the ID of the operation that restores a snapshot, empty if there is none.
	Restore string
	// StateBackend is the backend that has the state, ConfiguredBackend the one
	// that the next run uses, and MovedBackend the one to which the user says that
	// the state was moved.
	StateBackend, ConfiguredBackend, MovedBackend string
	// BackendProvable is set if a run finds out whether the configured backend has the state.
	BackendProvable bool
	// Move is the user's request to move the state to the configured backend, nil if
	// there is none.
	Move *terraform.Move
	// Command is the state command of the user that is executed next, nil if there is none.
	Command *terraform.StateCommand
	// OneShot is the one-shot operation that is executed next, or whose plan waits. It is nil
	// if there is none.
	OneShot *terraform.OneShot
	// ApprovedPlan and RejectedPlan are plan IDs.
	ApprovedPlan, RejectedPlan string
	// Protect lists the protected resources, Unprotected the ones that the user
	// released.
	Protect, Unprotected []string
	// Policies is the digest of the policies that apply to the workspace.
	Policies string
	Plan     *infrav1.PlanStatus
	Failure  *infrav1.FailureStatus
	Drift    *infrav1.DriftStatus
	// Interrupted is set if the plan waits for approval because of an interrupted run.
	Interrupted bool
	// LastApplied is the time of the last successful apply.
	LastApplied time.Time
	// Former is what only the template of the existing resources requires.
	Former Former
	// IsOwned is set if the workspace belongs to a cluster or a machine.
	IsOwned bool
	// Jitter is between -1 and 1. It is constant for a workspace.
	Jitter float64
	Now    time.Time
}

// Decision is the run that a workspace starts next.
type Decision struct {
	Operation terraform.Operation
	// Plan is the plan that an Apply applies.
	Plan string
	// OneShot is set if the run executes the one-shot operation of the user.
	OneShot bool
}

// NoRun is the decision to start no run.
var NoRun = Decision{}

// Next returns the run to start. An error is a fault that explains why no run
// starts.
func Next(s Situation) (Decision, error) {
	if next, err := s.decideBackend(); err != nil || next != NoRun {
		return next, err
	}
	if next, err := s.decideStateChange(); err != nil || next != NoRun {
		return next, err
	}
	applied := s.Inputs == s.AppliedInputs && !s.Requested && !s.unfinished()
	if next, err := s.decideOneShot(); next != NoRun || err != nil && !applied {
		return next, err
	}
	if applied {
		// An operation may wait for approval meanwhile.
		return s.decideDriftCheck()
	}
	if s.Requested {
		// A request starts over: it overrides failures and plans.
		if s.Policy.Approval == infrav1.ApprovalManual {
			return Decision{Operation: terraform.OperationPlan}, nil
		}
		return Decision{Operation: terraform.OperationPlanAndApply}, nil
	}
	if s.policiesChanged() {
		// They decide about another plan, because the resources may have changed as well.
		if s.Policy.Approval == infrav1.ApprovalManual {
			return s.Attempt(Decision{Operation: terraform.OperationPlan}, s.Inputs)
		}
		return s.Attempt(Decision{Operation: terraform.OperationPlanAndApply}, s.Inputs)
	}
	if s.planWaits() && s.Plan.PolicyAction == infrav1.PolicyDeny {
		return NoRun, deniedFault(s.Plan, "Plan "+s.Plan.ID+" is denied", "")
	}
	if s.Policy.Approval == infrav1.ApprovalManual || s.planWaits() && s.Plan.PolicyAction == infrav1.PolicyRequireApproval {
		return s.decideManual()
	}
	if s.planWaits() {
		if blocked := s.blocked(); len(blocked) > 0 {
			return NoRun, s.protectedFault(blocked)
		}
	}
	return s.Attempt(Decision{Operation: terraform.OperationPlanAndApply}, s.Inputs)
}

// decideStateChange returns the run that restores a snapshot or executes a state
// command, if the user requested one. It precedes all runs that use the state.
func (s Situation) decideStateChange() (Decision, error) {
	if s.Restore != "" {
		restore := Decision{Operation: terraform.OperationRestoreState}
		if s.Requested {
			return restore, nil
		}
		return s.Attempt(restore, runs.RestoreInputs(s.Restore))
	}
	if s.Command != nil {
		return Decision{Operation: terraform.OperationStateCommand}, nil
	}
	return NoRun, nil
}

// decideBackend rejects all runs while the state is in another backend than the
// configured one, except the run that moves it, and those that prove that it is the same.
func (s Situation) decideBackend() (Decision, error) {
	if s.Move != nil {
		move := Decision{Operation: terraform.OperationMoveState}
		if s.Requested {
			return move, nil
		}
		return s.Attempt(move, runs.MoveInputs(s.Move.ID))
	}
	if s.StateBackend == "" || s.StateBackend == s.ConfiguredBackend || s.MovedBackend == s.ConfiguredBackend {
		return NoRun, nil
	}
	// A restore or a push compares nothing with the known state.
	if s.BackendProvable && s.Restore == "" && s.Command == nil {
		return NoRun, nil
	}
	return NoRun, fault.Stall(infrav1.BackendChangedReason,
		"The state is in backend %s, but backend %s is configured: a run would start with an empty state and create all resources again. Move the state with captctl state migrate-backend, or change the WorkspaceProviderConfig back. If you have moved it yourself, run captctl state adopt --backend %s",
		s.StateBackend, s.ConfiguredBackend, s.ConfiguredBackend)
}

// unfinished reports whether something remains to be done although the inputs
// are applied: drift to repair, a plan that waits and was not rejected, or a
// failed run.
func (s Situation) unfinished() bool {
	repair := s.Policy.DriftAction == infrav1.DriftRepair && s.Drift != nil && len(s.Drift.Resources) > 0
	return repair || s.planWaits() && s.RejectedPlan != s.Plan.ID || s.Failure != nil && s.Failure.Inputs == s.Inputs
}

// planWaits reports whether a plan for the desired inputs has not been applied.
func (s Situation) planWaits() bool {
	return s.Plan != nil && s.Plan.Inputs == s.Inputs && s.Plan.IsWaiting()
}

// policiesChanged reports whether other policies decided about the plan that waits. A
// rejected plan stays rejected.
func (s Situation) policiesChanged() bool {
	return s.planWaits() && s.RejectedPlan != s.Plan.ID && s.Plan.PolicyDigest != s.Policies
}

// decideManual decides for approval: Manual, from plan to approval to apply.
func (s Situation) decideManual() (Decision, error) {
	if !s.planWaits() {
		return s.Attempt(Decision{Operation: terraform.OperationPlan}, s.Inputs)
	}
	switch {
	case s.RejectedPlan == s.Plan.ID:
		return NoRun, fault.Stall(infrav1.PlanRejectedReason, "Plan %s was rejected%s: change the inputs or request another plan", s.Plan.ID, Quoted(s.Plan.Comment))
	case s.ApprovedPlan != s.Plan.ID:
		return NoRun, fault.Wait(infrav1.WaitingForApprovalReason, "Plan %s (%s) waits for approval: approve it with captctl approve, a WorkspaceApproval or spec.approvedPlan%s%s%s", s.Plan.ID, PlanSummary(s.Plan), approvalCause(s.Plan), s.Former.Approval, s.interruptedCause())
	}
	if blocked := s.blocked(); len(blocked) > 0 {
		return NoRun, s.protectedFault(blocked)
	}
	return s.Attempt(Decision{Operation: terraform.OperationApply, Plan: s.Plan.ID}, s.Inputs)
}

// interruptedCause explains why the plan after an interrupted run waits for approval.
func (s Situation) interruptedCause() string {
	if !s.Interrupted {
		return ""
	}
	return ". An earlier run was interrupted, and a plan would destroy what it left tainted. If such a resource is complete, keep it with untaint in captctl shell, then request a run"
}

// blocked returns the protected resources that the plan would destroy and that
// the user has not released. The runner checks the whole plan again.
func (s Situation) blocked() []string {
	request := terraform.Request{Protect: s.Protect, Unprotected: s.Unprotected}
	return slices.DeleteFunc(slices.Clone(s.Plan.Blocked), func(address string) bool { return !request.Protected(address) })
}

func (s Situation) protectedFault(addresses []string) error {
	return fault.Stall(infrav1.ProtectedResourceReason, "%s%s", ProtectedMessage(addresses), s.Former.Protect)
}

// ProtectedMessage says how to allow a plan that would remove protected resources.
func ProtectedMessage(addresses []string) string {
	return fmt.Sprintf("The plan would destroy or replace protected resources, or does not find them: %s. To allow this, approve the plan with captctl approve --allow-destroy, or with a WorkspaceApproval that has them in allowDestroy",
		strings.Join(addresses, ", "))
}

// Attempt returns a decision unless a run with the same inputs failed and may not
// be retried, or not yet.
func (s Situation) Attempt(d Decision, inputs string) (Decision, error) {
	f := s.Failure
	if f == nil || f.Inputs != inputs {
		return d, nil
	}
	if f.NextAt.IsZero() {
		return NoRun, fault.Stall(f.Reason, "%s", f.Message)
	}
	if GaveUp(s.Policy, f) {
		return NoRun, fault.Stall(f.Reason, "%s (gave up after %d attempts; change the inputs or request a run with captctl reconcile)", f.Message, f.Attempts)
	}
	if wait := f.NextAt.Sub(s.Now); wait > 0 {
		return NoRun, fault.WaitFor(wait, f.Reason, "%s (attempt %d failed; the next one starts at %s)", f.Message, f.Attempts, f.NextAt.UTC().Format(time.RFC3339))
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
func (s Situation) decideDriftCheck() (Decision, error) {
	if due, enabled := s.NextDriftCheck(); s.DriftCheckRequested() || enabled && !s.Now.Before(due) {
		return Decision{Operation: terraform.OperationCheckDrift}, nil
	}
	return NoRun, nil
}

// DriftCheckRequested reports whether the user requested a drift check that has
// not been handled. Without a previous apply there is nothing to check.
func (s Situation) DriftCheckRequested() bool {
	return s.DriftCheckAsked && !s.LastApplied.IsZero()
}

// NextDriftCheck returns when the next periodic drift check is due. It returns
// false if periodic checks are disabled or nothing has been applied.
func (s Situation) NextDriftCheck() (time.Time, bool) {
	if !ChecksDrift(s.Policy) || s.LastApplied.IsZero() {
		return time.Time{}, false
	}
	last := s.LastApplied
	if s.Drift != nil && s.Drift.CheckedAt.After(last) {
		last = s.Drift.CheckedAt.Time
	}
	wait := s.Policy.DriftInterval + time.Duration(float64(s.Policy.DriftInterval)*0.1*s.Jitter)
	if s.Drift != nil && s.Drift.FailedAt.After(last) {
		last = s.Drift.FailedAt.Time
	}
	due := last.Add(wait)
	if CheckFailed(s.Drift) && !s.Drift.NextAt.IsZero() && s.Drift.NextAt.Time.Before(due) {
		due = s.Drift.NextAt.Time
	}
	return due, true
}

// ChecksDrift reports whether a policy enables periodic drift checks.
func ChecksDrift(policy template.Policy) bool {
	return policy.DriftAction != infrav1.DriftOff && policy.DriftAction != ""
}

// Backoff returns the delay after the given number of consecutive failures.
func Backoff(policy template.Policy, attempts int32) time.Duration {
	return reconcile.Backoff(policy.MinBackoff, policy.MaxBackoff, attempts-1)
}

// PlanSummary returns what a plan would change, in words.
func PlanSummary(p *infrav1.PlanStatus) string {
	if p.Refresh > 0 {
		return fmt.Sprintf("%d resources of the state to update", p.Refresh)
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
}

// Jitter returns the position of a workspace in an interval, between -1 and 1.
func Jitter(apply *infrav1.WorkspaceTemplateApply) float64 {
	h := fnv.New32a()
	h.Write([]byte(apply.Namespace + "/" + apply.Name))
	return 2*float64(h.Sum32())/math.MaxUint32 - 1
}

// Former explains which settings only the template of the existing resources requires, and not
// the workspace or its current template. A text is empty if there is none.
type Former struct{ Approval, DestroyApproval, Protect string }

// GaveUp reports whether a workspace with this failure is not retried any more because its
// attempts have reached the limit of its policy.
func GaveUp(policy template.Policy, failure *infrav1.FailureStatus) bool {
	return policy.RetryLimit != nil && failure.Attempts > *policy.RetryLimit && countsAsAttempt(failure)
}

// DriftUnknown reports whether the drift checks of a workspace with this policy fail. A failure
// that is soon followed by another check does not count. Without periodic checks, only the user
// who requests one waits for its result.
func DriftUnknown(policy template.Policy, drift *infrav1.DriftStatus) bool {
	return ChecksDrift(policy) && CheckFailed(drift) && drift.NextAt.IsZero()
}

// CheckFailed reports whether the latest check that was not canceled failed.
func CheckFailed(drift *infrav1.DriftStatus) bool {
	return drift != nil && drift.Failure != "" && drift.FailedAt.After(drift.CheckedAt.Time)
}

package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// maxListed is the number of resources or outputs that a message lists.
const maxListed = 5

// neverApplied reports whether there are no resources that could drift.
func neverApplied(s *scope) bool { return s.apply.Status.AppliedAt.IsZero() }

// drift reports the result of the latest drift check.
func (r *Reconciler) drift(_ context.Context, s *scope) error {
	return driftFault(s.apply.Status.Drift, untilDriftCheck(s))
}

// DriftUnknown reports whether the drift checks of a workspace with this policy fail. A failure
// that is soon followed by another check does not count. Without periodic checks, only the user
// who requests one waits for its result.
func DriftUnknown(policy template.Policy, drift *infrav1.DriftStatus) bool {
	return ChecksDrift(policy) && checkFailed(drift) && drift.NextAt.IsZero()
}

// checkFailed reports whether the latest check that was not canceled failed.
func checkFailed(drift *infrav1.DriftStatus) bool {
	return drift != nil && drift.Failure != "" && drift.FailedAt.After(drift.CheckedAt.Time)
}

// soonChecks is how many failed checks in a row are repeated before drift.interval has passed.
const soonChecks = 4

// recordFailedCheck records a drift check without a result. The drift is unknown then, unless
// the user canceled the check.
func (s *status) recordFailedCheck(run *runRecord, result *terraform.Result, outcome terraform.Outcome) {
	drift := s.apply.Status.Drift.DeepCopy()
	if drift == nil {
		drift = &infrav1.DriftStatus{}
	}
	failed := checkFailed(drift)
	drift.FailedAt, drift.Request = metav1.NewTime(result.FinishedAt), run.secret.Annotations[record.DriftAnnotation]
	s.apply.Status.Drift = drift
	if outcome == outcomeCanceled {
		if failed && !drift.NextAt.IsZero() {
			drift.NextAt = s.nextCheck(result.FinishedAt, drift.Failures, retryLater)
		}
		return
	}
	drift.Failure = message.Truncate(failureMessage(run, result, outcome), maxSummary)
	if !failed {
		drift.Failures = 0
	}
	drift.Failures++
	_, retry := classifyFailure(result, outcome)
	drift.NextAt = s.nextCheck(result.FinishedAt, drift.Failures, retry)
}

// nextCheck returns when a check that failed is repeated, or zero: after drift.interval. The
// waits survive an outage of an hour, leave the slots to other runs, and differ between
// workspaces, whose checks may have failed at the same time. A failure that a user has to
// correct is checked once more, after the longest wait.
func (s *status) nextCheck(failedAt time.Time, failures int32, retry retryMode) metav1.Time {
	waits := failures
	if retry == retryNever && failures == 1 {
		waits = soonChecks
	} else if retry == retryNever || failures > soonChecks {
		return metav1.Time{}
	}
	wait := reconcile.Backoff(s.policy.MinBackoff, maxSoonWait, 2*waits)
	return metav1.NewTime(failedAt.Add(wait + time.Duration(float64(wait)*0.5*jitter(s.apply))))
}

// maxSoonWait limits the wait between two checks of which the first failed.
const maxSoonWait = 2 * time.Hour

// endDrift records that a run has refreshed all resources: they do not differ from the state,
// and why earlier checks failed does not matter any more.
func (s *status) endDrift() {
	if drift := s.apply.Status.Drift; drift != nil {
		s.apply.Status.Drift = &infrav1.DriftStatus{CheckedAt: drift.CheckedAt, Request: drift.Request}
	}
}

// driftFault waits if resources have drifted or the last check failed: until the next check if there is
// one, and for a watch otherwise.
func driftFault(drift *infrav1.DriftStatus, untilNext time.Duration) error {
	if checkFailed(drift) {
		return fault.Unknown(untilNext, infrav1.DriftCheckFailedReason, "The drift check failed at %s: %s", drift.FailedAt.UTC().Format(time.RFC3339), drift.Failure)
	}
	if drift == nil || len(drift.Resources) == 0 {
		return nil
	}
	var addresses []string
	for _, resource := range drift.Resources {
		addresses = append(addresses, resource.Address)
	}
	text := fmt.Sprintf("%d resources differ from the state: %s", len(addresses), message.List(addresses, maxListed))
	if untilNext > 0 {
		return fault.WaitFor(untilNext, infrav1.DriftDetectedReason, "%s", text)
	}
	return fault.Wait(infrav1.DriftDetectedReason, "%s", text)
}

func noDriftMessage(s *scope) string { return driftCheckMessage(s.apply.Status.Drift, s.inputs.Policy) }

func driftCheckMessage(drift *infrav1.DriftStatus, policy template.Policy) string {
	switch {
	case drift != nil && !drift.CheckedAt.IsZero():
		return "Last checked at " + drift.CheckedAt.UTC().Format(time.RFC3339)
	case !ChecksDrift(policy):
		return "Not checked: drift.action is Off"
	default:
		return "Not checked yet"
	}
}

// untilDriftCheck returns the time until the next drift check, or zero if no
// requeue is required. A check that is due has already been requested: its run,
// or a free slot, triggers the next reconcile.
func untilDriftCheck(s *scope) time.Duration {
	due, enabled := s.situation().nextDriftCheck()
	if !enabled || s.current() != nil {
		return 0
	}
	return max(due.Sub(s.now), 0)
}

package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile"
	"github.com/appthrust/capt/internal/terraform"
)

// SoonChecks is how many failed checks in a row are repeated before drift.interval has passed.
const SoonChecks = 4

// recordFailedCheck records a drift check without a result. The drift is unknown then, unless
// the user canceled the check.
func (s *Status) recordFailedCheck(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	drift := s.Apply.Status.Drift.DeepCopy()
	if drift == nil {
		drift = &infrav1.DriftStatus{}
	}
	failed := decision.CheckFailed(drift)
	drift.FailedAt = metav1.NewTime(result.FinishedAt)
	s.Apply.Status.Drift = drift
	if outcome == runs.OutcomeCanceled {
		if failed && !drift.NextAt.IsZero() {
			drift.NextAt = s.nextCheck(result.FinishedAt, drift.Failures, retryLater)
		}
		return
	}
	drift.Failure = message.Truncate(failureMessage(run, result, outcome), MaxSummary)
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
func (s *Status) nextCheck(failedAt time.Time, failures int32, retry retryMode) metav1.Time {
	waits := failures
	if retry == retryNever && failures == 1 {
		waits = SoonChecks
	} else if retry == retryNever || failures > SoonChecks {
		return metav1.Time{}
	}
	wait := reconcile.Backoff(s.Policy.MinBackoff, maxSoonWait, 2*waits)
	return metav1.NewTime(failedAt.Add(wait + time.Duration(float64(wait)*0.5*decision.Jitter(s.Apply))))
}

// maxSoonWait limits the wait between two checks of which the first failed.
const maxSoonWait = 2 * time.Hour

// endDrift records that a run has refreshed all resources: they do not differ from the state,
// and why earlier checks failed does not matter any more.
func (s *Status) endDrift() {
	if drift := s.Apply.Status.Drift; drift != nil {
		s.Apply.Status.Drift = &infrav1.DriftStatus{CheckedAt: drift.CheckedAt}
	}
}

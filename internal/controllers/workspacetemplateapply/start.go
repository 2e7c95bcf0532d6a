package workspacetemplateapply

import (
	"cmp"
	"context"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// defaultStartTimeout is how long a pod may take to start. It may need a new node.
const defaultStartTimeout = 15 * time.Minute

// hopeless are the reasons of pods that rarely start later without a change.
var hopeless = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError"}

// isStuck reports whether a run has been waiting for its pod for too long. It would keep
// its slot, which others need.
func (r *execution) isStuck(run *runRecord, explanation string) bool {
	if record.Claimed(run.secret) || run.executor() != infrav1.ExecutorJob {
		return false
	}
	timeout := r.startTimeout()
	for _, reason := range hopeless {
		if strings.Contains(explanation, reason) {
			return run.age(r.Now()) > timeout/3
		}
	}
	return run.age(r.Now()) > timeout
}

// startTimeout returns how long a run may take to start.
func (r *execution) startTimeout() time.Duration { return cmp.Or(r.StartTimeout, defaultStartTimeout) }

// age returns how long ago a run was recorded.
func (run *runRecord) age(now time.Time) time.Duration {
	if run.secret.CreationTimestamp.IsZero() {
		return 0
	}
	return now.Sub(run.secret.CreationTimestamp.Time)
}

// failStart ends a run that could not start. It is retried with backoff.
func (r *execution) failStart(ctx context.Context, run *runRecord, why string) error {
	live, err := r.liveRun(ctx, run)
	if err != nil {
		return err
	}
	if record.Claimed(live) || record.Finished(live) {
		return fault.WaitFor(time.Second, infrav1.RunInProgressReason, "Run %s has just started", run.id)
	}
	result := lostResult(run, live.CreationTimestamp.Time, r.Now(), "")
	result.Outcome, result.Unclaimed = terraform.OutcomeFailed, true
	result.Diagnostics[0].Summary, result.Diagnostics[0].Detail = "The run could not start", why
	if err := r.finish(ctx, run, live, result); err != nil {
		return err
	}
	return fault.WaitFor(time.Second, infrav1.RetryingReason, "Run %s could not start. %s", run.id, why)
}

package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
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

// DriftUnknown reports whether the latest drift checks of a workspace with this policy failed.
// One failure is soon followed by another check. Without periodic checks, only the user who
// requests one waits for its result.
func DriftUnknown(policy template.Policy, drift *infrav1.DriftStatus) bool {
	return ChecksDrift(policy) && checkFailed(drift) && failedChecks(drift) > 1
}

// checkFailed reports whether the latest check that was not canceled failed.
func checkFailed(drift *infrav1.DriftStatus) bool {
	return drift != nil && drift.Failure != "" && drift.FailedAt.After(drift.CheckedAt.Time)
}

// failedChecks returns how many checks in a row have failed, of which the latest did. Earlier
// versions did not count them.
func failedChecks(drift *infrav1.DriftStatus) int32 { return max(drift.Failures, 1) }

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

package workspacetemplateapply

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// neverApplied reports whether there are no resources that could drift.
func neverApplied(s *execution.Scope) bool { return s.Apply.Status.AppliedAt.IsZero() }

// drift reports the result of the latest drift check.
func (r *Reconciler) drift(_ context.Context, s *execution.Scope) error {
	return driftFault(s.Apply.Status.Drift, untilDriftCheck(s))
}

// driftFault waits if resources have drifted or the last check failed: until the next check if there is
// one, and for a watch otherwise.
func driftFault(drift *infrav1.DriftStatus, untilNext time.Duration) error {
	if decision.CheckFailed(drift) {
		return fault.Unknown(untilNext, infrav1.DriftCheckFailedReason, "The drift check failed at %s: %s", drift.FailedAt.UTC().Format(time.RFC3339), drift.Failure)
	}
	if drift == nil || len(drift.Resources) == 0 {
		return nil
	}
	var addresses []string
	for _, resource := range drift.Resources {
		addresses = append(addresses, resource.Address)
	}
	text := fmt.Sprintf("%d resources differ from the state: %s", len(addresses), message.List(addresses, decision.MaxListed))
	if untilNext > 0 {
		return fault.WaitFor(untilNext, infrav1.DriftDetectedReason, "%s", text)
	}
	return fault.Wait(infrav1.DriftDetectedReason, "%s", text)
}

func noDriftMessage(s *execution.Scope) string {
	return driftCheckMessage(s.Apply.Status.Drift, s.Inputs.Policy)
}

func driftCheckMessage(drift *infrav1.DriftStatus, policy template.Policy) string {
	switch {
	case drift != nil && !drift.CheckedAt.IsZero():
		return "Last checked at " + drift.CheckedAt.UTC().Format(time.RFC3339)
	case !decision.ChecksDrift(policy):
		return "Not checked: drift.action is Off"
	default:
		return "Not checked yet"
	}
}

// untilDriftCheck returns the time until the next drift check, or zero if no
// requeue is required. A check that is due has already been requested: its run,
// or a free slot, triggers the next reconcile.
func untilDriftCheck(s *execution.Scope) time.Duration {
	due, enabled := s.Situation().NextDriftCheck()
	if !enabled || s.Current() != nil {
		return 0
	}
	return max(due.Sub(s.Now), 0)
}

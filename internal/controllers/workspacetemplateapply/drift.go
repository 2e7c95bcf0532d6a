package workspacetemplateapply

import (
	"context"
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// drift shows what the latest comparison of state and reality found.
func (r *Reconciler) drift(_ context.Context, s *scope) error {
	drift := s.apply.Status.Drift
	observeDrift(s, drift)
	if drift == nil || len(drift.Resources) == 0 {
		return nil
	}
	var addresses []string
	for _, resource := range drift.Resources[:min(len(drift.Resources), 5)] {
		addresses = append(addresses, resource.Address)
	}
	message := fmt.Sprintf("%d resources differ from the state: %s", len(drift.Resources), strings.Join(addresses, ", "))
	if next := r.nextDrift(s); next > 0 {
		return fault.WaitFor(next, infrav1.DriftDetectedReason, "%s", message)
	}
	return fault.Wait(infrav1.DriftDetectedReason, "%s", message)
}

func driftMessage(s *scope) string {
	switch drift := s.apply.Status.Drift; {
	case drift != nil && !drift.CheckedAt.IsZero():
		return "Last looked for at " + drift.CheckedAt.UTC().Format(time.RFC3339)
	case s.inputs.Policy.DriftAction == infrav1.DriftOff || s.inputs.Policy.DriftAction == "":
		return "Not looked for: drift.action is Off"
	default:
		return "Not looked for yet"
	}
}

// nextDrift tells when reality is to be compared again. A comparison that is due
// has been asked for by now: its run, or a free slot, brings the workspace back.
func (r *Reconciler) nextDrift(s *scope) time.Duration {
	due, on := s.situation().driftDue()
	if !on || s.current() != nil {
		return 0
	}
	return max(due.Sub(s.now), 0)
}

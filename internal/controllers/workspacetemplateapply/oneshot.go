package workspacetemplateapply

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
)

// endOneShot ends a one-shot operation that is refused, or whose plan waits and will not be
// applied: it was rejected or withdrawn, or the inputs come first.
func (r *Reconciler) endOneShot(s *execution.Scope) {
	plan, current := s.Apply.Status.Plan, s.Situation()
	once, ok := runs.OneShotRun{}, false
	if plan != nil && decision.IsWaiting(plan) {
		once, ok = runs.ParseOneShotInputs(plan.Inputs)
	}
	if !ok {
		if why := current.Refusal(); why != "" {
			s.Apply.Status.EndOneShot(current.OneShot.ID)
			text := fmt.Sprintf("The one-shot operation %s is not executed. %s", message.Truncate(message.OneLine(current.OneShot.Arguments()), decision.MaxQuote), why)
			history.OneShotEnded(corev1.EventTypeWarning, text).Record(r.Recorder, s.Apply, nil)
		}
		return
	}
	why := ""
	switch pending := current.OneShot != nil && current.OneShot.ID == once.ID; {
	case !pending:
		why = "The request was withdrawn"
	case current.RejectedPlan == plan.ID:
		why = "Its plan was rejected" + decision.Quoted(plan.Comment)
	case current.Inputs != once.Inputs:
		why = "The inputs have changed"
	case current.Requested():
		why = "A run of the inputs was requested"
	default:
		return
	}
	plan.Waiting = new(false)
	s.Apply.Status.EndOneShot(once.ID)
	history.OneShotEnded(corev1.EventTypeNormal, fmt.Sprintf("Plan %s of a one-shot operation is not applied. %s", plan.ID, why)).Record(r.Recorder, s.Apply, nil)
}

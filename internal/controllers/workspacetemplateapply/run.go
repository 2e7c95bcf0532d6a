package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/execution"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/record"
)

// run applies the desired inputs.
func (r *Reconciler) run(ctx context.Context, s *execution.Scope) error {
	if run := s.Current(); run != nil {
		return s.UnlessApplied(run.Operation(), run.Inputs(), r.execution.Attend(ctx, s, run))
	}
	if err := r.resolver.ResolveMove(ctx, s.Resolved); err != nil {
		return err
	}
	if err := r.endOneShot(ctx, s); err != nil {
		return err
	}
	next, err := decision.Next(s.Situation())
	if err != nil || next == decision.NoRun {
		return err
	}
	return s.UnlessApplied(next.Operation, s.InputsOf(next), r.execution.Start(ctx, s, next))
}

// attendingRun wraps a step that may end the list before the step run. A run that has
// not ended is attended nevertheless.
func (r *Reconciler) attendingRun(step func(context.Context, *execution.Scope) error) func(context.Context, *execution.Scope) error {
	return func(ctx context.Context, s *execution.Scope) error {
		err := step(ctx, s)
		if err == nil {
			return nil
		}
		run := s.Current()
		if run == nil || !record.Claimed(run.Secret) && !fault.Is(err) {
			return err
		}
		return joinFailure(err, r.execution.Attend(ctx, s, run))
	}
}

// joinFailure adds the error of a run to that of a step, unless the run only
// waits.
func joinFailure(stepErr, runErr error) error {
	if _, waiting := fault.AsWaiting(runErr); waiting {
		return stepErr
	}
	return errors.Join(stepErr, runErr)
}

// releaseSlot frees the slot of a workspace that has no run and waits for none, however
// its reconcile ended. Otherwise workspaces that are paused, or that cannot run any more,
// would keep the slots that they waited for.
func (r *Reconciler) releaseSlot(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, s *execution.Scope) {
	if s == nil {
		s = execution.NewScope(&runs.Workspace{Apply: apply})
		if err := r.store.ReadRuns(ctx, s.Workspace); err != nil || s.MissesRun() {
			return
		}
	}
	if !s.KeepsSlot && s.Current() == nil && !r.numbers.LacksActive(ctx, s.Workspace) {
		r.queue.Release(s.Slot())
	}
}

// endOneShot ends a one-shot operation that is refused, or whose plan waits and will not be
// applied: it was rejected or withdrawn, or the inputs come first.
func (r *Reconciler) endOneShot(ctx context.Context, s *execution.Scope) error {
	plan, current := s.Apply.Status.Plan, s.Situation()
	once, ok := runs.OneShotRun{}, false
	if plan.IsWaiting() {
		once, ok = runs.ParseOneShotInputs(plan.Inputs)
	}
	if !ok {
		if why := current.Refusal(); why != "" {
			text := fmt.Sprintf("The one-shot operation %s is not executed. %s", message.Truncate(message.OneLine(current.OneShot.Arguments()), decision.MaxQuote), why)
			history.OneShotEnded(corev1.EventTypeWarning, text).Record(r.Recorder, s.Apply, nil)
			o := s.PendingOneShot()
			return runs.SetOperation(ctx, r.Client, o, runs.EndedOperation(o, infrav1.OperationFailed, why, s.Now))
		}
		return nil
	}
	why := ""
	switch pending := current.OneShot != nil && current.OneShot.ID == once.ID; {
	case !pending:
		why = "The request was withdrawn"
	case current.RejectedPlan == plan.ID:
		why = "Its plan was rejected" + decision.Quoted(plan.Comment)
	case current.Inputs != once.Inputs:
		why = "The inputs have changed"
	case current.Requested:
		why = "A run of the inputs was requested"
	default:
		return nil
	}
	plan.Waiting = new(false)
	history.OneShotEnded(corev1.EventTypeNormal, fmt.Sprintf("Plan %s of a one-shot operation is not applied. %s", plan.ID, why)).Record(r.Recorder, s.Apply, nil)
	return nil
}

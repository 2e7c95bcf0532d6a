package history

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// OperationStatus returns the status of an operation that has not ended. It follows from the
// recorded runs.
func OperationStatus(s *runs.Workspace, o *infrav1.WorkspaceOperation) infrav1.WorkspaceOperationStatus {
	switch o.Spec.Type {
	case infrav1.OperationCancel:
		return cancelStatus(s, o)
	case infrav1.OperationShell:
		return shellStatus(s, o)
	}
	run := s.RunOfOperation(o)
	if run == nil && s.IsReplaced(o) {
		return runs.EndedOperation(o, infrav1.OperationCanceled, replaced, s.Now)
	}
	if run == nil && !s.Apply.DeletionTimestamp.IsZero() && (o.Spec.HasOptions() || o.Spec.Type == infrav1.OperationCheckDrift) {
		return runs.EndedOperation(o, infrav1.OperationCanceled, "The workspace is being deleted", s.Now)
	}
	if run == nil {
		status := *o.Status.DeepCopy()
		status.Phase, status.Message = infrav1.OperationPending, waitsFor(s.Apply)
		return status
	}
	status := infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationRunning, Run: run.ID, StartedAt: o.Status.StartedAt}
	if status.StartedAt == nil {
		status.StartedAt = new(run.Secret.CreationTimestamp)
	}
	recorded := recordOf(s.Apply, run.ID)
	switch {
	case recorded == nil && run.Result() != nil:
		// It is kept beyond the history.
		return *o.Status.DeepCopy()
	case recorded == nil:
		return status
	}
	status.Phase, status.Message = phaseOf(s, o, run, recorded)
	if (&infrav1.WorkspaceOperation{Status: status}).Ended() {
		status.FinishedAt = new(metav1.NewTime(s.Now))
	}
	return status
}

// waitsFor returns what a workspace without a run waits for.
func waitsFor(apply *infrav1.WorkspaceTemplateApply) string {
	kind := infrav1.AppliedCondition
	if !apply.DeletionTimestamp.IsZero() {
		kind = infrav1.DestroyedCondition
	}
	c := meta.FindStatusCondition(apply.Status.Conditions, kind)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason == infrav1.RunInProgressReason {
		return ""
	}
	return c.Message
}

// phaseOf returns the phase of an operation whose run has ended.
func phaseOf(s *runs.Workspace, o *infrav1.WorkspaceOperation, run *runs.Run, recorded *infrav1.RunRecord) (infrav1.OperationPhase, string) {
	outcome := terraform.Outcome(recorded.Outcome)
	settled, succeeded := slices.Contains(runs.SettledOutcomes, outcome), outcome == terraform.OutcomeSucceeded || outcome == terraform.OutcomeNoChanges
	failure := fmt.Sprintf("Run %s ended: %s. %s", run.ID, outcome, recorded.Summary)
	switch {
	case o.Spec.HasOptions():
		return oneShotPhase(s, o, run, recorded)
	case o.Spec.Type == infrav1.OperationRestore || o.Spec.Type == infrav1.OperationMove:
		switch {
		case succeeded:
		case s.IsReplaced(o):
			return infrav1.OperationCanceled, replaced
		default:
			return infrav1.OperationPending, failure + ". To go on without it, delete this operation"
		}
	case o.Spec.Type == infrav1.OperationUnlock || o.Spec.Type == infrav1.OperationAdopt:
		if !settled {
			return infrav1.OperationPending, failure
		}
		return infrav1.OperationSucceeded, recorded.Summary
	case o.Spec.Type == infrav1.OperationRun && (outcome == terraform.OutcomeInterrupted || outcome == runs.OutcomeLost):
		return infrav1.OperationPending, failure + ". The next run continues"
	}
	return outcomePhase(outcome), recorded.Summary
}

// oneShotPhase returns the phase of a run with options that has ended.
func oneShotPhase(s *runs.Workspace, o *infrav1.WorkspaceOperation, run *runs.Run, recorded *infrav1.RunRecord) (infrav1.OperationPhase, string) {
	outcome, plan := terraform.Outcome(recorded.Outcome), s.Apply.Status.Plan
	waits := outcome == terraform.OutcomePlanned && !o.Spec.Run.PlanOnly
	switch {
	case !s.IsDecided(o) && waits:
		return infrav1.OperationWaitingForApproval, fmt.Sprintf("Plan %s (%s) waits for approval", plan.ID, decision.PlanSummary(plan))
	case !s.IsDecided(o):
		return infrav1.OperationPending, recorded.Summary
	case waits && plan != nil && plan.Run == run.ID && s.RejectedPlan() == plan.ID:
		return infrav1.OperationCanceled, "Plan " + plan.ID + " was rejected" + decision.Quoted(plan.Comment)
	case waits:
		return infrav1.OperationCanceled, "Its plan is not applied, because the inputs have changed or a run of the inputs was requested"
	default:
		return outcomePhase(outcome), recorded.Summary
	}
}

func outcomePhase(outcome terraform.Outcome) infrav1.OperationPhase {
	switch outcome {
	case terraform.OutcomeSucceeded, terraform.OutcomeNoChanges, terraform.OutcomePlanned:
		return infrav1.OperationSucceeded
	case runs.OutcomeCanceled:
		return infrav1.OperationCanceled
	default:
		return infrav1.OperationFailed
	}
}

// cancelStatus returns the status of the request to stop a run.
func cancelStatus(s *runs.Workspace, o *infrav1.WorkspaceOperation) infrav1.WorkspaceOperationStatus {
	id, current := o.Spec.Cancel.Run, s.Current()
	recorded := recordOf(s.Apply, id)
	switch {
	case recorded != nil && terraform.Outcome(recorded.Outcome) == runs.OutcomeCanceled:
		return runs.EndedOperation(o, infrav1.OperationSucceeded, "Run "+id+" was stopped", s.Now)
	case recorded != nil:
		return runs.EndedOperation(o, infrav1.OperationFailed, "Run "+id+" had ended before: "+string(recorded.Outcome), s.Now)
	case current != nil && current.ID == id:
		return infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationRunning, Run: id, StartedAt: &current.Secret.CreationTimestamp, Message: "Run " + id + " is stopping"}
	case s.MissesRun() || current != nil && s.Apply.Status.Runs > current.Number:
		return infrav1.WorkspaceOperationStatus{Phase: infrav1.OperationPending}
	default:
		return runs.EndedOperation(o, infrav1.OperationFailed, "Run "+id+" is not in progress", s.Now)
	}
}

// shellStatus returns the status of a shell, which is open until its operation is deleted.
func shellStatus(s *runs.Workspace, o *infrav1.WorkspaceOperation) infrav1.WorkspaceOperationStatus {
	status := *o.Status.DeepCopy()
	status.Phase, status.Message = infrav1.OperationPending, "Another shell is open"
	if first := s.OpenShell(); first != nil && first.UID == o.UID {
		status.Phase, status.Message = infrav1.OperationRunning, "The shell is open. To close it, delete this operation"
		if status.StartedAt == nil {
			status.StartedAt = new(metav1.NewTime(s.Now))
		}
	}
	return status
}

// replaced explains why a restore or a move is not executed.
const replaced = "A later operation replaces it"

// recordOf returns the entry of a run in the history, or nil.
func recordOf(apply *infrav1.WorkspaceTemplateApply, id string) *infrav1.RunRecord {
	for i := range apply.Status.History {
		if apply.Status.History[i].ID == id {
			return &apply.Status.History[i]
		}
	}
	return nil
}

package history

import (
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// AppliedMessage describes what is applied.
func AppliedMessage(apply *infrav1.WorkspaceTemplateApply) string {
	var texts []string
	if state := apply.Status.State; state != nil {
		texts = append(texts, fmt.Sprintf("%d resources in the state", state.Resources))
	}
	if plan := apply.Status.Plan; plan.IsWaiting() && plan.Request != nil {
		texts = append(texts, fmt.Sprintf("Plan %s (%s) of the one-shot operation %s waits for a decision", plan.ID, decision.PlanSummary(plan), message.Truncate(plan.Request.Arguments, decision.MaxQuote)))
	}
	return strings.Join(texts, ". ")
}

// Summary returns in short what a run did, or why it failed.
func Summary(result *terraform.Result) string {
	switch result.Outcome {
	case terraform.OutcomePlanned, terraform.OutcomeBlocked, terraform.OutcomeDenied:
		if result.Plan == nil {
			return string(result.Outcome)
		}
		if result.Plan.Refresh > 0 {
			return fmt.Sprintf("%d resources of the state to update", result.Plan.Refresh)
		}
		return fmt.Sprintf("%d to add, %d to change, %d to destroy", result.Plan.Add, result.Plan.Change, result.Plan.Destroy)
	case terraform.OutcomeSucceeded:
		if result.Operation == terraform.OperationCheckDrift {
			return fmt.Sprintf("%d resources drifted", len(result.Drift))
		}
		if result.Plan == nil {
			return string(result.Outcome)
		}
		if result.Plan.Refresh > 0 {
			return fmt.Sprintf("%d resources of the state updated", result.Plan.Refresh)
		}
		return fmt.Sprintf("%d added, %d changed, %d destroyed", result.Plan.Add, result.Plan.Change, result.Plan.Destroy)
	case terraform.OutcomeNoChanges:
		return "No changes"
	}
	if text := result.Diagnostics.Short(); text != "" {
		return text
	}
	return string(result.Outcome)
}

// planStatus returns the plan of a run for the status.
func planStatus(run *runs.Run, result *terraform.Result) *infrav1.PlanStatus {
	p := result.Plan
	status := &infrav1.PlanStatus{
		ID: p.ID, Run: run.ID, CreatedAt: metav1.NewTime(result.FinishedAt), Inputs: run.Inputs(),
		Add: count(p.Add), Change: count(p.Change), Destroy: count(p.Destroy), Refresh: count(p.Refresh), Changes: ResourceChanges(p.Changes),
		Blocked: shownAddresses(result.Blocked),
	}
	if _, once := runs.ParseOneShotInputs(run.Inputs()); once {
		status.Request = run.Request()
	}
	if slices.Contains([]terraform.Outcome{terraform.OutcomePlanned, terraform.OutcomeBlocked, terraform.OutcomeDenied}, result.Outcome) {
		status.Waiting = new(true)
	}
	recordViolations(status, run, result)
	status.Operation = infrav1.PlanApply
	if run.Operation().Destroys() {
		status.Operation = infrav1.PlanDestroy
	}
	status.OmittedChanges = count(max(p.Omitted, 0) + len(p.Changes) - len(status.Changes))
	return status
}

// ResourceChanges returns changes for the status, up to its limits.
func ResourceChanges(changes []terraform.Change) []infrav1.ResourceChange {
	var shown []infrav1.ResourceChange
	for _, c := range firstOf(changes, maxList) {
		if c.Address != "" && c.Action != "" {
			shown = append(shown, infrav1.ResourceChange{Address: message.Truncate(c.Address, maxAddress), Action: message.Truncate(string(c.Action), runs.MaxWord)})
		}
	}
	return shown
}

// shownAddresses returns addresses for the status, up to its limits.
func shownAddresses(addresses []string) []string {
	var shown []string
	for _, address := range firstOf(addresses, maxList) {
		shown = append(shown, message.Truncate(address, maxAddress))
	}
	return shown
}

// count returns a number that a run reports as one of the status.
func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// firstOf returns at most limit entries of a list.
func firstOf[T any](list []T, limit int) []T { return list[:min(len(list), limit)] }

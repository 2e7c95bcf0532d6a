package describe

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
)

// WorkspaceNode returns the node of a workspace with its run. With all, it includes
// the conditions and the latest finished run.
func WorkspaceNode(apply *infrav1.WorkspaceTemplateApply, all bool) *Node {
	b := &builder{objects: &Objects{}, all: all}
	return b.object(apply)
}

// addWorkspace adds the drift and the run of a workspace to its node.
func (b *builder) addWorkspace(n *Node, apply *infrav1.WorkspaceTemplateApply) {
	if n.State == StateReady && apply.Status.State != nil {
		n.Message = text.Count(apply.Status.State.Resources, "resource")
	}
	if drift := apply.Status.Drift; n.State == StateReady && drift != nil && len(drift.Resources) > 0 {
		n.State, n.Reason = StateAttention, infrav1.DriftDetectedReason
		n.Message = fmt.Sprintf("Drift in %s: see captctl drift %s", text.Count(len(drift.Resources), "resource"), apply.Name)
	}
	if c := conditionWith(apply, infrav1.StateSavedCondition, metav1.ConditionFalse); n.State == StateReady && c != nil && c.Reason == infrav1.StateNotMergedReason {
		n.State, n.Reason, n.Message = StateAttention, c.Reason, c.Message
	}
	if run := apply.Status.Run; run != nil {
		n.add(RunNode(run))
		if strings.Contains(n.Message, run.ID) {
			// The node of the run has more details.
			n.Message = ""
		}
	} else if b.all && len(apply.Status.History) > 0 {
		n.add(recordNode(apply.Status.History[0]))
	}
}

// RunNode returns the node of a run in progress.
func RunNode(run *infrav1.RunStatus) *Node {
	n := &Node{Kind: "Run", Name: run.ID, State: StateWaiting, Reason: string(run.Operation), Since: run.StartedAt}
	n.Progress = &Progress{Operation: string(run.Operation)}
	p := run.Progress
	if p == nil {
		return n
	}
	n.Reason = cmp.Or(p.Phase, n.Reason)
	n.Progress.Phase, n.Progress.Done, n.Progress.Total = p.Phase, p.Done, p.Total
	if len(p.Current) > 0 {
		n.Progress.Current, n.Progress.Action, n.Progress.CurrentSince = p.Current[0].Address, p.Current[0].Action, p.Current[0].Since
	}
	return n
}

// recordNode returns the node of a finished run.
func recordNode(record infrav1.RunRecord) *Node {
	return &Node{
		Kind: "Run", Name: record.ID, State: OutcomeState(record.Outcome), Reason: string(record.Outcome), Message: record.Summary,
		Since: metav1.NewTime(record.StartedAt.Add(record.Duration.Duration)),
	}
}

// OutcomeState returns the state that the outcome of a run leads to.
func OutcomeState(outcome infrav1.RunOutcome) State {
	switch outcome {
	case "Failed", "TimedOut", "Lost":
		return StateFailed
	case "Planned", "Blocked", "Denied", "Canceled":
		return StateAttention
	case "Interrupted":
		return StateWaiting
	default:
		return StateReady
	}
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

func newHistoryCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "history NAME",
		Short: "List the runs and the shells of a workspace",
		Example: `  captctl history cluster/demo
  captctl history network-a -o json`,
	}, func(ctx context.Context, w *workspaceCall) error {
		if output.Structured() {
			return output.Print(w.Out, history{Workspace: w.apply.Name, Current: w.apply.Status.Run, Finished: text.NonNil(w.apply.Status.History), Shells: shellsOf(w.apply)})
		}
		return w.printHistory()
	})
	addOutput(cmd, &output)
	return cmd
}

// history is the structured output of captctl history.
type history struct {
	Workspace string              `json:"workspace"`
	Current   *infrav1.RunStatus  `json:"current,omitempty"`
	Finished  []infrav1.RunRecord `json:"finished"`
	// Shells are those of captctl shell, the newest first.
	Shells []infrav1.ShellStatus `json:"shells,omitempty"`
}

func (w *workspaceCall) printHistory() error {
	now := time.Now()
	table := text.NewTable("RUN", "OPERATION", "OUTCOME", "AGE", "DURATION", "SUMMARY")
	if run := w.apply.Status.Run; run != nil {
		summary := ""
		if p := run.Progress; p != nil {
			summary = strings.TrimSpace(fmt.Sprintf("%s %d/%d", p.Phase, p.Done, p.Total))
		}
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: "Running", Colour: text.Cyan},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{}, text.Cell{Text: summary})
	}
	shells := shellsOf(w.apply)
	for _, run := range w.apply.Status.History {
		for len(shells) > 0 && shells[0].OpenedAt.After(run.StartedAt.Time) {
			addShell(table, &shells[0], now)
			shells = shells[1:]
		}
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: string(run.Outcome), Colour: outcomeColour(run.Outcome)},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{Text: run.Duration.Round(100 * time.Millisecond).String()}, text.Cell{Text: historySummary(&run)})
	}
	for i := range shells {
		addShell(table, &shells[i], now)
	}
	if w.apply.Status.Run == nil && len(w.apply.Status.History) == 0 && w.apply.Status.Shell == nil {
		fmt.Fprintf(w.Err, "%s has no runs yet: see %s\n", w.apply.Name, w.hints("kubectl describe wsta "+w.apply.Name))
		return nil
	}
	return table.Print(w.Out, w.style())
}

// shellsOf returns the recorded shells, the newest first.
func shellsOf(apply *infrav1.WorkspaceTemplateApply) []infrav1.ShellStatus {
	if apply.Status.Shell == nil {
		return nil
	}
	return append([]infrav1.ShellStatus{*apply.Status.Shell}, apply.Status.PastShells...)
}

// addShell adds a shell to the table: who opened it, for how long, and why.
func addShell(table *text.Table, shell *infrav1.ShellStatus, now time.Time) {
	outcome, duration := text.Cell{Text: "Open", Colour: text.Yellow}, now.Sub(shell.OpenedAt.Time)
	if shell.ClosedAt != nil {
		outcome, duration = text.Cell{Text: "Closed"}, shell.ClosedAt.Sub(shell.OpenedAt.Time)
	}
	summary := cmp.Or(shell.By, "a user")
	if shell.Host != "" {
		summary += " on " + shell.Host
	}
	if shell.Reason != "" {
		summary += ": " + shell.Reason
	}
	table.Add(text.Cell{Text: shell.ID}, text.Cell{Text: "Shell"}, outcome, text.Cell{Text: text.Age(now, shell.OpenedAt.Time)},
		text.Cell{Text: duration.Round(time.Second).String()}, text.Cell{Text: message.OneLine(summary)})
}

// historySummary returns what a run did, after the one-shot operation that it executed.
func historySummary(run *infrav1.RunRecord) string {
	summary := message.OneLine(run.Summary)
	if r := run.Request; r != nil && r.RequestedBy != "" {
		return fmt.Sprintf("%s (%s): %s", message.OneLine(r.Arguments), r.RequestedBy, summary)
	} else if r != nil {
		return message.OneLine(r.Arguments) + ": " + summary
	}
	return summary
}

func outcomeColour(outcome infrav1.RunOutcome) text.Colour {
	switch describe.OutcomeState(outcome) {
	case describe.StateReady:
		return text.Green
	case describe.StateFailed:
		return text.Red
	default:
		return text.Yellow
	}
}

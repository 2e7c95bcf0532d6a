package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/message"
)

func newHistoryCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "history NAME",
		Short: "List the runs of a workspace",
		Example: `  captctl history cluster/demo
  captctl history network-a -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, historyOf(apply))
			}
			return o.printHistory(apply)
		},
	})
	addOutput(cmd, &output)
	return cmd
}

// history is the structured output of captctl history.
type history struct {
	Workspace string              `json:"workspace"`
	Current   *infrav1.RunStatus  `json:"current,omitempty"`
	Finished  []infrav1.RunRecord `json:"finished"`
}

func historyOf(apply *infrav1.WorkspaceTemplateApply) history {
	return history{Workspace: apply.Name, Current: apply.Status.Run, Finished: text.NonNil(apply.Status.History)}
}

func (o *Options) printHistory(apply *infrav1.WorkspaceTemplateApply) error {
	now := time.Now()
	table := text.NewTable("RUN", "OPERATION", "OUTCOME", "AGE", "DURATION", "SUMMARY")
	if run := apply.Status.Run; run != nil {
		summary := ""
		if p := run.Progress; p != nil {
			summary = strings.TrimSpace(fmt.Sprintf("%s %d/%d", p.Phase, p.Done, p.Total))
		}
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: "Running", Colour: text.Cyan},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{}, text.Cell{Text: summary})
	}
	for _, run := range apply.Status.History {
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: string(run.Outcome), Colour: outcomeColour(run.Outcome)},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{Text: run.Duration.Round(100 * time.Millisecond).String()}, text.Cell{Text: historySummary(&run)})
	}
	if apply.Status.Run == nil && len(apply.Status.History) == 0 {
		fmt.Fprintf(o.Err, "%s has no runs yet: see kubectl describe wsta %s\n", apply.Name, apply.Name)
		return nil
	}
	return table.Print(o.Out, o.style())
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
	switch outcome {
	case "Succeeded", "NoChanges":
		return text.Green
	case "Failed", "TimedOut", "Lost":
		return text.Red
	default:
		return text.Yellow
	}
}

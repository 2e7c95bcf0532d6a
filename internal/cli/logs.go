package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/record"
)

func newLogsCommand(o *Options) *cobra.Command {
	var run string
	var follow bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "logs NAME",
		Short: "Show the log of a workspace's run",
		Long: `Show the log of a workspace's latest run, or of the one that --run names. With
-f it goes on until the run ends.`,
		Example: `  captctl logs -f cluster/demo
  captctl logs network-a --run network-a-r7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			secret, err := operate.RunSecret(cmd.Context(), c, apply, run)
			if err != nil {
				return err
			}
			return o.printLog(cmd.Context(), c, secret, follow)
		},
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	cmd.Flags().StringVar(&run, "run", "", "the run, as captctl history names it")
	_ = cmd.RegisterFlagCompletionFunc("run", o.completeRuns)
	return cmd
}

// completeRuns completes the names of the runs of the workspace that is named.
func (o *Options) completeRuns(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.complete(func(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
		apply, err := operate.Find(ctx, c, namespace, args[0])
		if err != nil {
			return nil, err
		}
		return operate.RunIDs(ctx, c, apply)
	}, true)(cmd, nil, typed)
}

func (o *Options) printLog(ctx context.Context, c client.WithWatch, secret *corev1.Secret, follow bool) error {
	var printed []byte
	show := func(secret *corev1.Secret) (bool, error) {
		log, err := record.Log(secret)
		if err != nil {
			return false, fmt.Errorf("unpacking the log: %w", err)
		}
		if _, err := o.Out.Write(operate.NewLog(printed, log)); err != nil {
			return false, fmt.Errorf("printing the log: %w", err)
		}
		if len(log) > 0 {
			printed = log
		}
		return record.Finished(secret), nil
	}
	if !follow {
		_, err := show(secret)
		if err == nil && len(printed) == 0 {
			fmt.Fprintf(o.Err, "Run %s has written no log yet: follow it with -f\n", record.RunID(secret))
		}
		return err
	}
	return operate.Watch(ctx, c, &corev1.SecretList{}, client.ObjectKeyFromObject(secret), show)
}

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

// runs are the runs of a workspace.
type runs struct {
	Workspace string              `json:"workspace"`
	Current   *infrav1.RunStatus  `json:"current,omitempty"`
	Finished  []infrav1.RunRecord `json:"finished"`
}

func historyOf(apply *infrav1.WorkspaceTemplateApply) runs {
	return runs{Workspace: apply.Name, Current: apply.Status.Run, Finished: text.NonNil(apply.Status.History)}
}

func (o *Options) printHistory(apply *infrav1.WorkspaceTemplateApply) error {
	now := time.Now()
	table := text.NewTable("RUN", "OPERATION", "OUTCOME", "AGE", "DURATION", "SUMMARY")
	if run := apply.Status.Run; run != nil {
		summary := ""
		if p := run.Progress; p != nil {
			summary = strings.TrimSpace(fmt.Sprintf("%s %d/%d", p.Phase, p.Done, p.Total))
		}
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: "goes on", Colour: text.Cyan},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{}, text.Cell{Text: summary})
	}
	for _, run := range apply.Status.History {
		table.Add(text.Cell{Text: run.ID}, text.Cell{Text: string(run.Operation)}, text.Cell{Text: string(run.Outcome), Colour: outcomeColour(run.Outcome)},
			text.Cell{Text: text.Age(now, run.StartedAt.Time)}, text.Cell{Text: run.Duration.Round(100 * time.Millisecond).String()}, text.Cell{Text: message.OneLine(run.Summary)})
	}
	if apply.Status.Run == nil && len(apply.Status.History) == 0 {
		fmt.Fprintf(o.Err, "%s has had no run yet: see kubectl describe wsta %s\n", apply.Name, apply.Name)
		return nil
	}
	return table.Print(o.Out, o.style())
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

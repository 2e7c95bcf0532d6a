package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform/record"
)

func newLogsCommand(o *Options) *cobra.Command {
	var runID string
	var follow bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a workspace's run",
		Long: `Print the log of a workspace's latest run, or of the run that --run names. With -f
the command keeps printing until the run ends.`,
		Example: `  captctl logs -f cluster/demo
  captctl logs network-a --run network-a-r7`,
	}, func(ctx context.Context, w *workspaceCall) error {
		secret, err := operate.RunSecret(ctx, w.client, w.apply, runID)
		if err != nil {
			return err
		}
		return w.printLog(ctx, secret, follow)
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Keep printing until the run ends.")
	cmd.Flags().StringVar(&runID, "run", "", "ID of the run, as captctl history lists it.")
	_ = cmd.RegisterFlagCompletionFunc("run", o.completeRuns)
	return cmd
}

// completeRuns completes the IDs of the runs of the workspace in the arguments.
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

// printLog prints the log of a run; with follow, until the run ends.
func (w *workspaceCall) printLog(ctx context.Context, secret *corev1.Secret, follow bool) error {
	var printed []byte
	show := func(secret *corev1.Secret) (bool, error) {
		log, err := record.Log(secret)
		if err != nil {
			return false, fmt.Errorf("reading the log: %w", err)
		}
		if _, err := w.Out.Write(operate.NewLog(printed, log)); err != nil {
			return false, fmt.Errorf("writing the log: %w", err)
		}
		if len(log) > 0 {
			printed = log
		}
		return record.Finished(secret), nil
	}
	if !follow {
		_, err := show(secret)
		if err == nil && len(printed) == 0 {
			fmt.Fprintf(w.Err, "Run %s has not written a log yet: follow it with -f\n", record.RunID(secret))
		}
		return err
	}
	p := w.progress()
	return operate.Watch(ctx, w.client, &corev1.SecretList{}, secret, p.outage, func(secret *corev1.Secret) (bool, error) {
		p.end()
		return show(secret)
	})
}

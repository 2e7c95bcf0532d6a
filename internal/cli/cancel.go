package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

func newCancelCommand(o *Options) *cobra.Command {
	var runID string
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "cancel NAME",
		Short: "Cancel the current run of a workspace",
		Long: `Cancel the current run of a workspace as Ctrl-C would: Terraform finishes its
current operations and saves the state. The workspace has no new run until its
inputs change or a run is requested with captctl retry.`,
		Example: "  captctl cancel cluster/demo --wait",
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		run, err := operate.CurrentRun(apply, runID)
		if err != nil {
			return err
		}
		if err := o.confirm(ctx, yes, fmt.Sprintf("Cancel run %s (%s)?", run.ID, run.Operation)); err != nil {
			return err
		}
		if err := operate.Cancel(ctx, c, apply, run); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Requested cancellation of run %s\n", run.ID)
		if !wait {
			return nil
		}
		_, err = o.waitUntil(ctx, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
			return a.Status.Run == nil || a.Status.Run.ID != run.ID
		})
		if err != nil {
			return o.stillRequested(err, cancelRequested)
		}
		return nil
	})
	cmd.Flags().StringVar(&runID, "run", "", "ID of the run to cancel. The command fails if another run is in progress.")
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&wait, "wait", false, "Show the progress and wait until the run has stopped.")
	return cmd
}

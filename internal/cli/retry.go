package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

func newRetryCommand(o *Options) *cobra.Command {
	var wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "retry NAME",
		Short: "Start a new run of a workspace",
		Long: `Start a new run of a workspace, whether the last run failed or succeeded. With
approval: Auto the new plan is applied, with approval: Manual it waits for
approval.`,
		Example: `  captctl retry cluster/demo
  captctl retry network-a --wait`,
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		request, err := operate.Retry(ctx, c, apply)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Requested a run of %s: follow it with %s\n", apply.Name, o.followHint(apply, args[0]))
		if !wait {
			return nil
		}
		return o.waitForResult(ctx, c, apply, runRequested, func(a *infrav1.WorkspaceTemplateApply) bool { return handled(a, request) })
	})
	addWait(cmd, &wait)
	return cmd
}

// handled reports whether the run for a request is finished.
func handled(apply *infrav1.WorkspaceTemplateApply, request string) bool {
	return apply.Status.HandledRequest == request && apply.Status.Run == nil
}

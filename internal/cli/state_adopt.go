package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

func newStateAdoptCommand(o *Options) *cobra.Command {
	var adopt infrav1.AdoptOptions
	var yes bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "adopt NAME",
		Short: "Let a workspace use a state that its runs refuse",
		Long: `Let a workspace use a state that its runs refuse: that of another workspace, an earlier
version, an empty one after the state was lost, or one that you moved to another backend
yourself. The message of the workspace shows the version or the backend to name.`,
		Example: "  captctl state adopt cluster/demo --version 6f0c3c4e-0000-4000-8000-000000000000/12",
	}, func(ctx context.Context, w *workspaceCall) error {
		if err := w.confirm(ctx, yes, fmt.Sprintf("Let %s use state %s and manage its resources?", w.apply.Name, adopt.State+adopt.Backend)); err != nil {
			return err
		}
		operation, err := operate.Adopt(ctx, w.client, w.apply, adopt)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Requested a run of %s that uses the state: kubectl get wso %s shows how it ends\n", w.apply.Name, operation.Name)
		return nil
	})
	cmd.Flags().StringVar(&adopt.State, "version", "", "Version of the state: lineage, slash, serial.")
	cmd.Flags().StringVar(&adopt.Backend, "backend", "", "Backend to which you have moved the state.")
	cmd.MarkFlagsOneRequired("version", "backend")
	cmd.MarkFlagsMutuallyExclusive("version", "backend")
	addYes(cmd, &yes)
	return cmd
}

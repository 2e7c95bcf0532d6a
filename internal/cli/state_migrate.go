package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
)

func newStateMigrateCommand(o *Options) *cobra.Command {
	var to string
	var toDefault bool
	var flags stateFlags
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "migrate-backend NAME --to CONFIG",
		Short: "Move the state of a workspace to another backend",
		Long: `Move the state of a workspace to the backend of the WorkspaceProviderConfig CONFIG,
and use that config from then on (spec.providerConfigRef). With --to-default the
workspace uses the config of its template again, or the default backend if the
template has none.

CAPT copies the state, reads it back and compares lineage, serial and resources. If
anything fails, the state stays where it is, and CAPT repeats the move. The state
before the move is kept as a snapshot. CAPT deletes the Secret of the default backend
after the move. It does not delete an object in another backend, and never uses it
again: delete it when you do not need it any more.

The plan after the move should have no changes. With approval: Auto it is applied at
once; use --hold to let it wait for approval.`,
		Example: "  captctl state migrate-backend cluster/demo --to aws-s3 --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if (to == "") != toDefault {
				return usageError("pass --to with the name of a WorkspaceProviderConfig, or --to-default for the config of the template, without which the state is in a Secret")
			}
			w, err := o.workspace(ctx, args)
			if err != nil {
				return err
			}
			target := "WorkspaceProviderConfig " + to
			if toDefault {
				target = "the config of its template"
			}
			if err := flags.confirm(ctx, w, fmt.Sprintf("Move the state of %s to the backend of %s?", w.apply.Name, target)); err != nil {
				return err
			}
			from := w.apply.Status.State.DeepCopy()
			move, err := operate.RequestMove(ctx, w.client, w.apply, to, flags.hold)
			if err != nil {
				return err
			}
			ran, err := w.waitForMove(ctx, move, from)
			if err != nil || !ran {
				return err
			}
			return flags.waitForPlan(ctx, w)
		},
	}, nil)
	cmd.Flags().StringVar(&to, "to", "", "WorkspaceProviderConfig with the new backend.")
	cmd.Flags().BoolVar(&toDefault, "to-default", false, "Move the state to the backend of the template's config, or to the default backend.")
	_ = cmd.RegisterFlagCompletionFunc("to", o.completeFlag(operate.Names(&infrav1.WorkspaceProviderConfigList{})))
	flags.add(cmd)
	return cmd
}

// waitForMove waits until the state is moved, and prints from where to where. It reports whether a
// run has moved it, which a plan follows.
func (w *workspaceCall) waitForMove(ctx context.Context, operation *infrav1.WorkspaceOperation, from *infrav1.StateStatus) (ran bool, err error) {
	var failed error
	seen, err := w.waitUntil(ctx, operation, w.starting(), func(s *observed) bool {
		var moved bool
		moved, failed = operate.Moved(s.apply, s.operation)
		return moved && s.tried() || failed != nil
	})
	if err != nil {
		return false, w.stillRequested(err, moveRequested)
	}
	if failed != nil {
		return false, failed
	}
	last := seen.apply
	result, err := operate.CommandResult(ctx, w.client, seen.operation)
	if err != nil || from == nil || last.Status.State == nil {
		fmt.Fprintf(w.Out, "There was nothing to move: %s uses its new config from now on\n", last.Name)
		return seen.operation.Status.Run != "", nil
	}
	to := last.Status.State
	fmt.Fprintf(w.Out, "Moved the state of %s from backend %s to backend %s: lineage %s, serial %d, %s\n", last.Name, from.Backend, to.Backend, to.Lineage, to.Serial, text.Count(to.Resources, "resource"))
	fmt.Fprintln(w.Out, snapshotNote(result))
	if from.Backend != terraform.BackendKubernetes {
		fmt.Fprintf(w.Out, "The state in backend %s is not used any more. Delete it when you do not need it\n", from.Backend)
	}
	return true, nil
}

package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
)

func newStateCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Read, change, move and restore the state of a workspace",
	}, newStateListCommand(o), newStateShowCommand(o), newStatePullCommand(o), newStatePushCommand(o), newStateMvCommand(o), newStateRmCommand(o), newStateMigrateCommand(o),
		o.former("captctl state migrate-backend", "move", newStateMigrateCommand(o)), newStateAdoptCommand(o), newSnapshotsCommand(o), newRestoreCommand(o))
}

func newSnapshotsCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "snapshots NAME",
		Short: "List the state snapshots of a workspace",
		Long: `List the state snapshots of a workspace: the states from before each run that made
changes, and the states that a run could not save.`,
		Example: "  captctl state snapshots cluster/demo",
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		snapshots, err := operate.Snapshots(ctx, c, apply)
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(o.Out, text.NonNil(snapshots))
		}
		if len(snapshots) == 0 {
			fmt.Fprintf(o.Err, "%s has no snapshots: a snapshot is taken before each run that changes the state\n", apply.Name)
			return nil
		}
		now := time.Now()
		table := text.NewTable("SNAPSHOT", "BEFORE RUN", "AGE", "SERIAL", "RESOURCES", "")
		for _, s := range snapshots {
			serial, resources, note := "encrypted", "", ""
			if s.Serial != nil && s.Resources != nil {
				serial, resources = strconv.FormatUint(*s.Serial, 10), strconv.Itoa(*s.Resources)
			}
			if s.Restored {
				note = "restored last"
			}
			table.Add(text.Cells(s.Name, s.Run, text.Age(now, s.Taken.Time), serial, resources, note)...)
		}
		return table.Print(o.Out, o.style())
	})
	addOutput(cmd, &output)
	return cmd
}

func newRestoreCommand(o *Options) *cobra.Command {
	var yes, wait, hold bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "restore NAME SNAPSHOT",
		Short: "Restore a state snapshot of a workspace",
		Long: `Restore a state snapshot of a workspace. SNAPSHOT is the name of a snapshot, or the
ID of the run before which it was taken.

CAPT takes a snapshot of the current state first. Then it creates a plan with the
restored state. With approval: Auto that plan is applied at once; use --hold to
let it wait for approval.`,
		Example: `  captctl state restore cluster/demo capt-snapshot-demo-r7-0 --hold
  captctl state restore cluster/demo demo-r7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("expected a workspace and a snapshot: %s", cmd.UseLine())
			}
			return nil
		},
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		snapshot, err := operate.FindSnapshot(ctx, c, apply, args[1])
		if err != nil {
			return err
		}
		if err := o.confirmStateChange(ctx, c, apply, yes, hold, fmt.Sprintf("Restore the state of %s to %s?", apply.Name, snapshot.Name)); err != nil {
			return err
		}
		operation, err := operate.Restore(ctx, c, apply, snapshot, hold)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Requested to restore the state of %s to %s\n", apply.Name, snapshot.Name)
		if !wait {
			return nil
		}
		return o.waitForResult(ctx, c, apply, operation, o.starting(), restoreRequested, func(s *observed) bool { return s.tried() && s.planned() })
	})
	addHold(cmd, &hold)
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

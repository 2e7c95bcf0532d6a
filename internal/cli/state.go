package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

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
	}, func(ctx context.Context, w *workspaceCall) error {
		snapshots, err := operate.Snapshots(ctx, w.client, w.apply)
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(w.Out, text.NonNil(snapshots))
		}
		if len(snapshots) == 0 {
			fmt.Fprintf(w.Err, "%s has no snapshots: a snapshot is taken before each run that changes the state\n", w.apply.Name)
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
		return table.Print(w.Out, w.style())
	})
	addOutput(cmd, &output)
	return cmd
}

func newRestoreCommand(o *Options) *cobra.Command {
	var flags stateFlags
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
	}, func(ctx context.Context, w *workspaceCall) error {
		snapshot, err := operate.FindSnapshot(ctx, w.client, w.apply, w.args[1])
		if err != nil {
			return err
		}
		if err := flags.confirm(ctx, w, fmt.Sprintf("Restore the state of %s to %s?", w.apply.Name, snapshot.Name)); err != nil {
			return err
		}
		operation, err := operate.Restore(ctx, w.client, w.apply, snapshot, flags.hold)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Requested to restore the state of %s to %s\n", w.apply.Name, snapshot.Name)
		if !flags.wait {
			return nil
		}
		return w.waitForResult(ctx, operation, w.starting(), restoreRequested, func(s *observed) bool { return s.tried() && s.planned() })
	})
	flags.add(cmd)
	return cmd
}

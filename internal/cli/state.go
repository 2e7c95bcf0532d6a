package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
)

func newStateCommand(o *Options) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "state",
		Short: "List and restore kept states of a workspace",
	})
	cmd.AddCommand(newSnapshotsCommand(o), newRestoreCommand(o))
	return cmd
}

func newSnapshotsCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "snapshots NAME",
		Short: "List the kept states of a workspace",
		Long: `List the kept states of a workspace: a snapshot from before each run that changed
something, and states that a run could not save.`,
		Example: "  captctl state snapshots cluster/demo",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			snapshots, err := operate.Snapshots(cmd.Context(), c, apply)
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, text.NonNil(snapshots))
			}
			if len(snapshots) == 0 {
				fmt.Fprintf(o.Err, "%s has no snapshots: one is taken before each run that changes a state\n", apply.Name)
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
		},
	})
	addOutput(cmd, &output)
	return cmd
}

func newRestoreCommand(o *Options) *cobra.Command {
	var yes, wait, hold bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "restore NAME SNAPSHOT",
		Short: "Put a kept state of a workspace back",
		Long: `Put a kept state of a workspace back. The present state is kept first. Then the
workspace is planned again over the restored state; with approval: Auto that
plan is applied at once, unless --hold has it wait.`,
		Example: `  captctl state restore cluster/demo capt-snapshot-demo-r7-0 --hold
  captctl state restore cluster/demo demo-r7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("give a workspace and a snapshot: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			snapshot, err := operate.FindSnapshot(ctx, c, apply, args[1])
			if err != nil {
				return err
			}
			policy, err := operate.Policy(ctx, c, apply)
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Put the state of %s back to %s?", apply.Name, snapshot.Name)
			if policy.Approval != infrav1.ApprovalManual && !hold {
				question = "The plan over the restored state will be applied at once (use --hold to look at it first). " + question
			}
			if err := o.confirm(yes, question); err != nil {
				return err
			}
			if err := operate.Restore(ctx, c, apply, snapshot, hold); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Asked to restore %s to %s\n", apply.Name, snapshot.Name)
			return o.awaitIf(ctx, wait, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
				return a.Status.Run == nil && a.Status.HandledRestore == snapshot.Name && (a.Status.AppliedInputs != "" || a.Status.Plan != nil || a.Status.Failure != nil)
			})
		},
	})
	cmd.Flags().BoolVar(&hold, "hold", false, "set approval: Manual, so that the plan over the restored state waits")
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

func newUnlockCommand(o *Options) *cobra.Command {
	var yes, noWait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "unlock NAME",
		Short: "Break the lock of a workspace's state",
		Long: `Break the lock of a workspace's state, when whoever holds it is gone. It is
refused while the holder is known to live. Then a run is asked for, which takes
the lock.`,
		Example: "  captctl unlock cluster/demo",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			lock, err := operate.FindLock(ctx, c, apply)
			if err != nil {
				return err
			}
			if lock == nil {
				fmt.Fprintf(o.Out, "The state of %s is not locked\n", apply.Name)
				return nil
			}
			question, err := unlockQuestion(lock, args[0])
			if err != nil {
				return err
			}
			if err := o.confirm(yes, question); err != nil {
				return err
			}
			request, err := operate.Unlock(ctx, c, apply, lock)
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Lock %s may be broken, and a run was asked for\n", lock.ID)
			if noWait {
				return nil
			}
			handled := func(a *infrav1.WorkspaceTemplateApply) bool {
				return a.Status.HandledRequest == request && a.Status.Run == nil
			}
			waitErr := o.awaitIf(ctx, true, c, apply, handled)
			// What was allowed once is not allowed for ever.
			return errors.Join(waitErr, operate.RevokeUnlock(ctx, c, apply))
		},
	})
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the run that takes the lock")
	return cmd
}

// unlockQuestion says who holds a lock. A holder that lives is an error.
func unlockQuestion(lock *operate.Lock, name string) (string, error) {
	switch lock.Holder {
	case terraform.LivenessRunning, terraform.LivenessPending:
		return "", fmt.Errorf("run %s holds the lock and lives (%s): stop it with captctl cancel %s", lock.ID, lock.Where, name)
	case terraform.LivenessGone:
		return fmt.Sprintf("Run %s is gone (%s). Start a run that takes its lock over?", lock.ID, lock.Where), nil
	}
	holder := lock.Who
	if lock.Where != "" {
		holder = lock.Where
	}
	if holder == "" {
		holder = "somebody"
	}
	question := fmt.Sprintf("Lock %s is held by %s", lock.ID, holder)
	if lock.Created != "" {
		question += " since " + lock.Created
	}
	return question + ", and nothing proves that the holder is gone. Two holders at once destroy a state. Break the lock?", nil
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
)

func newUnlockCommand(o *Options) *cobra.Command {
	var yes, noWait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "unlock NAME",
		Short: "Break the state lock of a workspace",
		Long: `Break the state lock of a workspace whose holder is not running any more, and start
a run that takes the lock. The command refuses to break the lock of a run that is
still active. It also ends the wait for a shell (captctl shell) that was killed.`,
		Example: "  captctl unlock cluster/demo",
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		lock, err := operate.FindLock(ctx, c, apply)
		if err != nil {
			return err
		}
		if text := apply.Annotations[infrav1.ShellAnnotation]; lock == nil && text != "" {
			return o.closeShell(ctx, c, apply, text, yes)
		}
		if lock == nil {
			fmt.Fprintf(o.Out, "The state of %s is not locked\n", apply.Name)
			return nil
		}
		question, err := unlockQuestion(lock, args[0])
		if err != nil {
			return err
		}
		if err := o.confirm(ctx, yes, question); err != nil {
			return err
		}
		request, err := operate.Unlock(ctx, c, apply, lock)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Requested a run that breaks lock %s\n", lock.ID)
		if noWait {
			return nil
		}
		return o.waitForUnlock(ctx, c, apply, lock.ID, request)
	})
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "Do not wait for the run that takes the lock.")
	return cmd
}

// waitForUnlock waits for the run that takes over a lock. The permission to break the lock is
// for that run only: it is removed also if the user interrupts the wait.
func (o *Options) waitForUnlock(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, id, request string) error {
	err := o.waitForResult(ctx, c, apply, runRequested, func(a *infrav1.WorkspaceTemplateApply) bool { return handled(a, request) })
	if errors.Is(err, operate.ErrDeleted) {
		return err
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if revokeErr := operate.RevokeUnlock(cleanup, c, apply); client.IgnoreNotFound(revokeErr) != nil {
		if err == nil || errors.Is(err, context.Canceled) {
			err = revokeErr
		}
		return &requestedError{err, fmt.Sprintf("the next run may still break lock %s: withdraw that with kubectl annotate wsta %s %s-", id, apply.Name, infrav1.ForceUnlockAnnotation)}
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(o.Err, "Lock %s is not broken any more, unless the run has started\n", id)
	}
	return err
}

// unlockQuestion returns the question to ask before a lock is broken. It returns
// an error if the holder is active.
func unlockQuestion(lock *operate.Lock, name string) (string, error) {
	switch lock.Holder {
	case terraform.LivenessRunning, terraform.LivenessPending:
		return "", fmt.Errorf("run %s holds the lock and is active (%s): cancel it with captctl cancel %s", lock.ID, lock.Where, name)
	case terraform.LivenessGone:
		return fmt.Sprintf("Run %s is not running any more (%s). Start a run that takes over its lock?", lock.ID, lock.Where), nil
	}
	question := fmt.Sprintf("Lock %s is held by %s", lock.ID, cmp.Or(lock.Where, lock.Who, "an unknown user"))
	if lock.Created != "" {
		question += " since " + lock.Created
	}
	return question + ". It is not known whether the holder is still running; two writers at the same time corrupt the state. Break the lock?", nil
}

// closeShell ends the wait for a shell that does not hold the lock.
func (o *Options) closeShell(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, text string, yes bool) error {
	id, where := "", "an unknown machine"
	if shell, err := terraform.ParseShell(text); err == nil {
		id, where = shell.ID, shell.Host
	}
	if err := o.confirm(ctx, yes, fmt.Sprintf("Let runs of %s start although shell %s on %s was not closed", apply.Name, id, where)); err != nil {
		return err
	}
	if err := operate.CloseShell(ctx, c, apply, id); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The state of %s is not locked. Runs do not wait for a shell any more\n", apply.Name)
	return nil
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
)

func newUnlockCommand(o *Options) *cobra.Command {
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "unlock NAME",
		Short: "Break the state lock of a workspace",
		Long: `Break the state lock of a workspace whose holder is not running any more, and start
a run that takes the lock. The command refuses to break the lock of a run that is
still active. It also ends the wait for a shell (captctl shell) that was killed.`,
		Example: "  captctl unlock cluster/demo",
	}, func(ctx context.Context, w *workspaceCall) error {
		lock, err := operate.FindLock(ctx, w.client, w.apply)
		if err != nil {
			return err
		}
		if lock == nil {
			return w.closeShells(ctx, yes)
		}
		question, err := unlockQuestion(lock, w.args[0])
		if err != nil {
			return err
		}
		if err := w.confirm(ctx, yes, question); err != nil {
			return err
		}
		operation, err := operate.Unlock(ctx, w.client, w.apply, lock)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Requested a run that breaks lock %s\n", lock.ID)
		if !wait {
			return nil
		}
		return w.waitForUnlock(ctx, operation)
	})
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&wait, "wait", true, "Wait for the run that takes the lock.")
	addTimeout(cmd, &wait)
	return cmd
}

// waitForUnlock waits for the run that takes over a lock. The permission to break the lock is
// for that run only: it is withdrawn also if the user interrupts the wait.
func (w *workspaceCall) waitForUnlock(ctx context.Context, operation *infrav1.WorkspaceOperation) error {
	err := w.waitForResult(ctx, operation, w.starting(), runRequested, (*observed).tried)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	id := operation.Spec.Unlock.Lock
	if _, withdrawErr := operate.Withdraw(cleanup, w.client, operation, true); withdrawErr != nil {
		if err == nil || errors.Is(err, context.Canceled) {
			err = withdrawErr
		}
		return &requestedError{err, fmt.Sprintf("the next run may still break lock %s: withdraw that with kubectl delete wso %s", id, operation.Name)}
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(w.Err, "Lock %s is not broken any more, unless the run has started\n", id)
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

// closeShells ends the wait for shells that do not hold the lock.
func (w *workspaceCall) closeShells(ctx context.Context, yes bool) error {
	shells, err := operate.OpenShells(ctx, w.client, w.apply)
	if err != nil {
		return err
	}
	if len(shells) == 0 {
		fmt.Fprintf(w.Out, "The state of %s is not locked\n", w.apply.Name)
		return nil
	}
	shell := shells[0].Spec.Shell
	if err := w.confirm(ctx, yes, fmt.Sprintf("Let runs of %s start although shell %s on %s was not closed", w.apply.Name, shell.ID, cmp.Or(shell.Host, "an unknown machine"))); err != nil {
		return err
	}
	if err := operate.CloseShells(ctx, w.client, w.apply); err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "The state of %s is not locked. Runs do not wait for a shell any more\n", w.apply.Name)
	return nil
}

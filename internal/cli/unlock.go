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
	var yes, wait bool
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
		if lock == nil {
			return o.closeShells(ctx, c, apply, yes)
		}
		question, err := unlockQuestion(lock, args[0])
		if err != nil {
			return err
		}
		if err := o.confirm(ctx, yes, question); err != nil {
			return err
		}
		operation, err := operate.Unlock(ctx, c, apply, lock)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Requested a run that breaks lock %s\n", lock.ID)
		if !wait {
			return nil
		}
		return o.waitForUnlock(ctx, c, apply, operation)
	})
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&wait, "wait", true, "Wait for the run that takes the lock.")
	addTimeout(cmd, &wait)
	return cmd
}

// waitForUnlock waits for the run that takes over a lock. The permission to break the lock is
// for that run only: it is withdrawn also if the user interrupts the wait.
func (o *Options) waitForUnlock(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, operation *infrav1.WorkspaceOperation) error {
	err := o.waitForResult(ctx, c, apply, operation, o.starting(), runRequested, (*observed).tried)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	id := operation.Spec.Unlock.Lock
	if _, withdrawErr := operate.Withdraw(cleanup, c, operation, true); withdrawErr != nil {
		if err == nil || errors.Is(err, context.Canceled) {
			err = withdrawErr
		}
		return &requestedError{err, fmt.Sprintf("the next run may still break lock %s: withdraw that with kubectl delete wso %s", id, operation.Name)}
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

// closeShells ends the wait for shells that do not hold the lock.
func (o *Options) closeShells(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, yes bool) error {
	shells, err := operate.OpenShells(ctx, c, apply)
	if err != nil {
		return err
	}
	if len(shells) == 0 {
		fmt.Fprintf(o.Out, "The state of %s is not locked\n", apply.Name)
		return nil
	}
	shell := shells[0].Spec.Shell
	if err := o.confirm(ctx, yes, fmt.Sprintf("Let runs of %s start although shell %s on %s was not closed", apply.Name, shell.ID, cmp.Or(shell.Host, "an unknown machine"))); err != nil {
		return err
	}
	if err := operate.CloseShells(ctx, c, apply); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The state of %s is not locked. Runs do not wait for a shell any more\n", apply.Name)
	return nil
}

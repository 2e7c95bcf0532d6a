package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/runner"
	"github.com/appthrust/capt/internal/terraform/speculate"
)

// shellFlags are the flags of captctl shell.
type shellFlags struct {
	binary, reason string
	noWait         bool
	// recordTimeout is how long the manager has to record the shell.
	recordTimeout time.Duration
}

func newShellCommand(o *Options) *cobra.Command {
	var flags shellFlags
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "shell NAME [-- COMMAND [ARGUMENT...]]",
		Short: "Work with OpenTofu or Terraform on the state of a workspace by hand",
		Long: `Open a shell on this machine with the module, the inputs and the state of a
workspace, for what no other command can do. In it, tofu or terraform work as usual.
With a COMMAND, that is executed instead of a shell, and its exit code is returned.

The state is locked, and no run starts until the shell ends: runs wait with the reason
ShellOpen. CAPT takes a snapshot of the state first, saves every change of it, and records
who opened the shell and when, in an event and in status.shell. Neither policies nor
protected resources are checked.

You must be allowed to read the Secrets of the workspace and to manage secrets/capt. If the
shell is killed, captctl unlock breaks its lock. If the API server is unavailable at the end,
captctl says so and tries to save the state for half an hour; Ctrl-C ends that, and the
files with the state are kept.`,
		Example: `  captctl shell cluster/demo --reason 'repair a resource that is stuck, incident 17'
  captctl shell network-a -- tofu state list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return fmt.Errorf("expected the name of one workspace, and a command only after --: %s", cmd.UseLine())
			}
			return nil
		},
	}, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		return o.openShell(ctx, c, apply, args[1:], &flags)
	})
	cmd.Flags().StringVar(&flags.reason, "reason", "", "Why the shell is needed. It is recorded.")
	cmd.Flags().StringVar(&flags.binary, "terraform-binary", "", "Path of OpenTofu or Terraform. "+toolHelp)
	cmd.Flags().BoolVar(&flags.noWait, "no-wait", false, "Do not wait until the manager has recorded the shell, for example because it does not run.")
	cmd.Flags().DurationVar(&flags.recordTimeout, "record-timeout", time.Minute, "How long to wait until the manager has recorded the shell.")
	return cmd
}

// openShell opens a shell and closes it when its command has ended.
func (o *Options) openShell(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string, flags *shellFlags) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	if err := operate.CheckShell(ctx, c, apply); err != nil {
		return err
	}
	// A workspace that cannot have a shell is refused before one is recorded.
	request, err := operate.ShellRequest(ctx, c, apply, nil)
	if err != nil {
		return err
	}
	if _, err := selectTool(ctx, c, apply, request, flags.binary); err != nil {
		return err
	}
	if err := operate.CheckNotPaused(apply); err != nil && !flags.noWait {
		return fmt.Errorf("%s is paused, so the manager does not record the shell: resume it, or pass --no-wait to work without the record", apply.Name)
	}
	operation, err := operate.OpenShell(ctx, c, apply, localUser(), flags.reason)
	if err != nil {
		return err
	}
	id := operation.Spec.Shell.ID
	defer func() {
		if left, ok := errors.AsType[*shellError](err); ok && left.unsaved {
			// A run would create again what is missing in the saved state.
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if closeErr := c.Delete(ctx, operation); client.IgnoreNotFound(closeErr) != nil {
			err = errors.Join(err, &shellError{error: fmt.Errorf("runs wait for shell %s until you run captctl unlock %s: %w", id, apply.Name, closeErr)})
		}
	}()
	if !flags.noWait {
		if err := o.awaitShell(ctx, c, apply, operation, flags.recordTimeout); err != nil {
			return err
		}
	}
	// A run may have changed the state and the module since.
	request, err = currentShellRequest(ctx, c, apply)
	if err != nil {
		return err
	}
	binary, err := setTool(ctx, c, apply, request, flags.binary)
	if err != nil {
		return err
	}
	return o.runShell(ctx, id, request, args, binary)
}

// currentShellRequest reads the workspace again and returns the request for its shell.
func currentShellRequest(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) (*terraform.Request, error) {
	var current infrav1.WorkspaceTemplateApply
	if err := c.Get(ctx, client.ObjectKeyFromObject(apply), &current); err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", apply.Name, err)
	}
	if current.UID != apply.UID {
		return nil, fmt.Errorf("workspace %s was replaced by another one: open the shell again", apply.Name)
	}
	gone, err := operate.ShellLock(ctx, c, &current)
	if err != nil {
		return nil, err
	}
	return operate.ShellRequest(ctx, c, &current, gone)
}

// errNotRecorded is why a shell is not opened without --no-wait.
var errNotRecorded = errors.New("the manager has not recorded the shell")

// awaitShell waits until the manager has recorded the shell, for a limited time, and then
// until no run is active.
func (o *Options) awaitShell(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, operation *infrav1.WorkspaceOperation, timeout time.Duration) error {
	p := o.progress()
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errNotRecorded)
	defer cancel()
	err := operate.Watch(limited, c, &infrav1.WorkspaceOperationList{}, operation, p.outage, func(current *infrav1.WorkspaceOperation) (bool, error) {
		p.show("Waiting until the manager has recorded the shell")
		if current.Ended() {
			return false, fmt.Errorf("the shell was not opened: %s", current.Status.Message)
		}
		return current.Status.Phase == infrav1.OperationRunning, nil
	})
	p.end()
	if err != nil && errors.Is(context.Cause(limited), errNotRecorded) {
		return fmt.Errorf("%w within %s: it is not running, busy, or older than captctl (see captctl doctor). Pass --no-wait to work without the record; a manager that does not know shells may start runs meanwhile, which the lock stops", errNotRecorded, timeout)
	}
	if err != nil {
		return err
	}
	_, err = o.waitUntil(ctx, c, apply, nil, "", func(s *observed) bool { return s.apply.Status.Run == nil })
	return err
}

// localUser returns the user of this machine and its name, as Terraform does for locks.
func localUser() string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if found, err := os.Hostname(); err == nil {
		host = found
	}
	return name + "@" + host
}

// shellError is the error if a shell left something that the user must know: its state, its
// lock or its record. No explanation of the cause may replace it.
type shellError struct {
	error
	// unsaved is set if the state is neither in its Secret nor in others.
	unsaved bool
}

func (e *shellError) Unwrap() error { return e.error }

// runShell locks the state and runs a command with it.
func (o *Options) runShell(ctx context.Context, id string, request *terraform.Request, args []string, binary string) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	scratch, remove, err := speculate.TempDir()
	if err != nil {
		return err
	}
	p := o.progress()
	p.show(fmt.Sprintf("Locking the state of %s and preparing its module", request.Workspace.Name))
	// The preparation can be cancelled. What follows the shell saves the state.
	prepare, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	keep := context.AfterFunc(ctx, cancel)
	wait := newShellWait(o, p, scratch)
	defer wait.end()
	var stateFile string
	var failure error
	result, err := runner.Shell(prepare, runner.Config{
		Namespace: request.Workspace.Namespace, RunID: id, API: config, Binary: binary, WorkDir: scratch, Inherit: withoutOther(ownEnvironment(), request.Env), Sandbox: runner.SandboxOff,
	}, request, runner.ShellOptions{
		Print: wait.print, Waiting: wait.waiting, GiveUp: wait.giveUp,
		Enter: func(_ context.Context, session *command.Session) error {
			if !keep() {
				return fmt.Errorf("opening the shell: %w", ctx.Err())
			}
			stateFile = session.StateFile()
			p.end()
			failure = o.execShell(ctx, session, request, id, args)
			p.show("Saving the state of " + request.Workspace.Name)
			return nil
		},
	})
	p.end()
	if stateFile != "" {
		if err := shellFailure(request.Workspace.Name, scratch, stateFile, result, err); err != nil {
			return err
		}
	} else if left, ok := errors.AsType[*runner.LockLeftError](err); ok {
		return errors.Join(&shellError{error: fmt.Errorf("the state is still locked: run captctl unlock %s: %w", request.Workspace.Name, left)}, err, remove())
	} else if err != nil {
		return errors.Join(err, remove())
	}
	fmt.Fprintf(o.Err, "Shell %s ended. %s\n", id, snapshotNote(result))
	return errors.Join(failure, remove())
}

// shellFailure returns the error of a shell that was entered and whose state or lock is not
// as it should be. The files in the directory are kept then.
func shellFailure(name, dir, stateFile string, result *terraform.Result, err error) error {
	_, lockLeft := errors.AsType[*runner.LockLeftError](err)
	switch {
	case result.StateUncertain && result.Rescued != "" && !lockLeft:
		return &shellError{error: fmt.Errorf("the state is not saved yet, but stored in Secret %s: start a run with captctl reconcile %s, which saves it. Its files are in %s: %w", record.ChunkName(result.Rescued, 0), name, dir, err)}
	case result.StateUncertain:
		if err == nil {
			err = errors.New("the tool was killed while it wrote the state")
		}
		return &shellError{unsaved: true, error: fmt.Errorf("the state could not be saved; its files are in %s. It stays locked, so that no run starts without them. Run captctl state push %s %s, which waits, and captctl unlock %s in another terminal: %w", dir, name, stateFile, name, err)}
	case lockLeft:
		return &shellError{error: fmt.Errorf("the state is saved, but still locked: run captctl unlock %s. The files of the shell are in %s: %w", name, dir, err)}
	case err != nil:
		return &shellError{error: fmt.Errorf("the state is saved, but the shell did not end as it should; its files are in %s: %w", dir, err)}
	default:
		return nil
	}
}

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

// shellCall is a call of captctl shell.
type shellCall struct {
	*workspaceCall
	binary, reason string
	noWait         bool
	// recordTimeout is how long the manager has to record the shell.
	recordTimeout time.Duration
}

func newShellCommand(o *Options) *cobra.Command {
	var s shellCall
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
	}, func(ctx context.Context, w *workspaceCall) error {
		s.workspaceCall = w
		return s.open(ctx)
	})
	cmd.Flags().StringVar(&s.reason, "reason", "", "Why the shell is needed. It is recorded.")
	cmd.Flags().StringVar(&s.binary, "terraform-binary", "", "Path of OpenTofu or Terraform. "+toolHelp)
	cmd.Flags().BoolVar(&s.noWait, "no-wait", false, "Do not wait until the manager has recorded the shell, for example because it does not run.")
	cmd.Flags().DurationVar(&s.recordTimeout, "record-timeout", time.Minute, "How long to wait until the manager has recorded the shell.")
	return cmd
}

// open opens a shell and closes it when its command has ended.
func (s *shellCall) open(ctx context.Context) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	if err := operate.CheckShell(ctx, s.client, s.apply); err != nil {
		return err
	}
	// A workspace that cannot have a shell is refused before one is recorded.
	request, err := operate.ShellRequest(ctx, s.client, s.apply, nil)
	if err != nil {
		return err
	}
	if _, err := selectTool(ctx, s.client, s.apply, request, s.binary); err != nil {
		return err
	}
	if err := operate.CheckNotPaused(s.apply); err != nil && !s.noWait {
		return fmt.Errorf("%s is paused, so the manager does not record the shell: resume it, or pass --no-wait to work without the record", s.apply.Name)
	}
	operation, err := operate.OpenShell(ctx, s.client, s.apply, localUser(), s.reason)
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
		if closeErr := s.client.Delete(ctx, operation); client.IgnoreNotFound(closeErr) != nil {
			err = errors.Join(err, &shellError{error: fmt.Errorf("runs wait for shell %s until you run captctl unlock %s: %w", id, s.apply.Name, closeErr)})
		}
	}()
	if !s.noWait {
		if err := s.await(ctx, operation); err != nil {
			return err
		}
	}
	// A run may have changed the state and the module since.
	request, err = s.currentRequest(ctx)
	if err != nil {
		return err
	}
	binary, err := setTool(ctx, s.client, s.apply, request, s.binary)
	if err != nil {
		return err
	}
	return s.run(ctx, id, request, binary)
}

// currentRequest reads the workspace again and returns the request for its shell.
func (s *shellCall) currentRequest(ctx context.Context) (*terraform.Request, error) {
	var current infrav1.WorkspaceTemplateApply
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(s.apply), &current); err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", s.apply.Name, err)
	}
	if current.UID != s.apply.UID {
		return nil, fmt.Errorf("workspace %s was replaced by another one: open the shell again", s.apply.Name)
	}
	gone, err := operate.ShellLock(ctx, s.client, &current)
	if err != nil {
		return nil, err
	}
	return operate.ShellRequest(ctx, s.client, &current, gone)
}

// errNotRecorded is why a shell is not opened without --no-wait.
var errNotRecorded = errors.New("the manager has not recorded the shell")

// await waits until the manager has recorded the shell, for a limited time, and then
// until no run is active.
func (s *shellCall) await(ctx context.Context, operation *infrav1.WorkspaceOperation) error {
	p := s.progress()
	limited, cancel := context.WithTimeoutCause(ctx, s.recordTimeout, errNotRecorded)
	defer cancel()
	err := operate.Watch(limited, s.client, &infrav1.WorkspaceOperationList{}, operation, p.outage, func(current *infrav1.WorkspaceOperation) (bool, error) {
		p.show("Waiting until the manager has recorded the shell")
		if current.Ended() {
			return false, fmt.Errorf("the shell was not opened: %s", current.Status.Message)
		}
		return current.Status.Phase == infrav1.OperationRunning, nil
	})
	p.end()
	if err != nil && errors.Is(context.Cause(limited), errNotRecorded) {
		return fmt.Errorf("%w within %s: it is not running, busy, or older than captctl (see captctl doctor). Pass --no-wait to work without the record; a manager that does not know shells may start runs meanwhile, which the lock stops", errNotRecorded, s.recordTimeout)
	}
	if err != nil {
		return err
	}
	_, err = s.waitUntil(ctx, nil, "", func(seen *observed) bool { return seen.apply.Status.Run == nil })
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

// run locks the state and runs a command with it.
func (s *shellCall) run(ctx context.Context, id string, request *terraform.Request, binary string) error {
	config, err := s.Config()
	if err != nil {
		return err
	}
	scratch, remove, err := speculate.TempDir()
	if err != nil {
		return err
	}
	p := s.progress()
	p.show(fmt.Sprintf("Locking the state of %s and preparing its module", request.Workspace.Name))
	// The preparation can be cancelled. What follows the shell saves the state.
	prepare, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	keep := context.AfterFunc(ctx, cancel)
	wait := newShellWait(s.Options, p, scratch)
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
			failure = s.exec(ctx, session, request, id)
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
	fmt.Fprintf(s.Err, "Shell %s ended. %s\n", id, snapshotNote(result))
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

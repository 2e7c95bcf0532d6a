package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
	"github.com/appthrust/capt/internal/terraform/runner"
	"github.com/appthrust/capt/internal/terraform/speculate"
)

// shellFlags are the flags of captctl shell.
type shellFlags struct {
	binary, reason string
	noWait         bool
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
shell is killed, captctl unlock breaks its lock.`,
		Example: `  captctl shell cluster/demo --reason 'repair a resource that is stuck, incident 17'
  captctl shell network-a -- tofu state list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return fmt.Errorf("expected the name of one workspace, and a command only after --: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			return o.openShell(cmd.Context(), c, apply, args[1:], &flags)
		},
	})
	cmd.Flags().StringVar(&flags.reason, "reason", "", "Why the shell is needed. It is recorded.")
	cmd.Flags().StringVar(&flags.binary, "terraform-binary", "", "Path of OpenTofu or Terraform. Defaults to $CAPT_TERRAFORM_BINARY, then tofu or terraform in PATH.")
	cmd.Flags().BoolVar(&flags.noWait, "no-wait", false, "Do not wait until the manager has recorded the shell, for example because it does not run.")
	return cmd
}

// openShell opens a shell and closes it when its command has ended.
func (o *Options) openShell(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string, flags *shellFlags) (err error) {
	gone, err := operate.CheckShell(ctx, c, apply)
	if err != nil {
		return err
	}
	request, err := operate.ShellRequest(ctx, c, apply, gone)
	if err != nil {
		return err
	}
	id, err := operate.OpenShell(ctx, c, apply, localUser(), flags.reason)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, operate.CloseShell(ctx, c, apply, id))
	}()
	if !flags.noWait {
		if _, err := o.waitUntil(ctx, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
			return a.Status.Shell != nil && a.Status.Shell.ID == id && a.Status.Run == nil
		}); err != nil {
			return err
		}
	}
	return o.runShell(ctx, id, request, args, flags.binary)
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

// runShell locks the state and runs a command with it.
func (o *Options) runShell(ctx context.Context, id string, request *terraform.Request, args []string, binary string) (err error) {
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
	var entered bool
	var failure error
	result, err := runner.Shell(context.WithoutCancel(ctx), runner.Config{
		Namespace: request.Workspace.Namespace, RunID: id, API: config, Binary: binary, WorkDir: scratch, Inherit: withoutOther(ownEnvironment(), request.Env), Sandbox: runner.SandboxOff,
	}, request, func(_ context.Context, session *command.Session) error {
		entered = true
		p.end()
		failure = o.execShell(ctx, session, request, id, args)
		return nil
	})
	p.end()
	if entered && err == nil && result.StateUncertain {
		err = errors.New("the tool was killed while it wrote the state")
	}
	if err != nil && entered {
		// The state may be only there.
		return fmt.Errorf("the state could not be saved completely; its files are in %s: %w", scratch, err)
	}
	if err = errors.Join(err, remove()); err != nil {
		return err
	}
	fmt.Fprintf(o.Err, "Shell %s ended. %s\n", id, snapshotNote(result))
	return failure
}

// accounts are the prefixes of variables that choose an account together.
var accounts = []string{"AWS_", "GOOGLE_", "CLOUDSDK_", "ARM_", "AZURE_"}

// withoutOther returns the names of inherited variables without those of a cloud for which
// the workspace has variables: a session or a profile of the user would change its account.
func withoutOther(names []string, env map[string]string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(accounts, func(prefix string) bool {
			return strings.HasPrefix(name, prefix) && slices.ContainsFunc(slices.Collect(maps.Keys(env)), func(own string) bool { return strings.HasPrefix(own, prefix) })
		})
	})
}

// execShell runs a command, or the user's shell if there is none, and returns its exit code
// as an error. A signal that ends captctl ends the command, whose state is saved then.
func (o *Options) execShell(ctx context.Context, session *command.Session, request *terraform.Request, id string, args []string) error {
	stop := syscall.SIGTERM
	if len(args) == 0 {
		args, stop = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}, syscall.SIGHUP
		fmt.Fprintf(o.Err, "The state of %s is locked by %s, and runs wait until you exit.\n", request.Workspace.Name, id)
	}
	env := append(session.ShellEnvironment(), "CAPT_SHELL="+id, "CAPT_WORKSPACE="+request.Workspace.Namespace+"/"+request.Workspace.Name)
	path, err := lookPath(args[0], env)
	if err != nil {
		return &Exit{Code: 127, Err: err}
	}
	child := &exec.Cmd{Path: path, Args: args, Dir: session.Root, Env: env, Stdin: o.In, Stdout: text.Raw(o.Out), Stderr: text.Raw(o.Err)}
	// The terminal sends an interrupt to the command as well.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", args[0], err)
	}
	ended := make(chan struct{})
	go func() {
		done := ctx.Done()
		if text.IsTerminal(o.In) {
			done = nil
		}
		select {
		case <-ended:
			return
		case <-hangup:
		case <-done:
		}
		_ = child.Process.Signal(stop)
	}()
	err = child.Wait()
	close(ended)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &Exit{Code: max(exit.ExitCode(), 1)}
	}
	return err
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, entry := range env {
		path, found := strings.CutPrefix(entry, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if program, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return program, nil
			}
		}
	}
	return "", fmt.Errorf("%s was not found in PATH", name)
}

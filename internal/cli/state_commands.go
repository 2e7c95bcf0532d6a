package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// runHelp explains how a state command is executed.
const runHelp = `The workspace executes the command in a run, with the credentials of its provider
config, whatever its backend.`

// writeHelp explains what happens before and after a change of the state.
const writeHelp = `CAPT takes a snapshot of the current state first. Afterwards it creates a plan. With
approval: Auto that plan is applied at once; use --hold to let it wait for approval.`

// stateFlags are the flags of the commands that change the state.
type stateFlags struct{ yes, hold, wait bool }

func (f *stateFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.hold, "hold", false, "Let the plan that follows wait for approval, even with approval: Auto.")
	addYes(cmd, &f.yes)
	addWait(cmd, &f.wait)
}

// waitForPlan waits for the plan that follows a change of the state, if the user wants that.
func (f *stateFlags) waitForPlan(ctx context.Context, w *workspaceCall) error {
	if !f.wait {
		return nil
	}
	return w.waitForResult(ctx, nil, w.starting(), planFollows, (*observed).planned)
}

// confirm asks the user a question about a change of the state. It warns if
// the plan that follows is applied without approval.
func (f *stateFlags) confirm(ctx context.Context, w *workspaceCall, question string) error {
	if !w.apply.DeletionTimestamp.IsZero() {
		return w.confirm(ctx, f.yes, fmt.Sprintf("%s is being deleted: the resources in its state will be destroyed afterwards. %s", w.apply.Name, question))
	}
	policy, err := operate.Policy(ctx, w.client, w.apply)
	if err != nil {
		return err
	}
	if policy.Approval != infrav1.ApprovalManual && !f.hold {
		question = "The next plan will be applied at once; use --hold to review it first. " + question
	}
	return w.confirm(ctx, f.yes, question)
}

// addressArgs requires a workspace and a number of addresses.
func addressArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= least || most >= 0 && len(args) > most+1 {
			return fmt.Errorf("wrong number of arguments: %s", cmd.UseLine())
		}
		return nil
	}
}

func newStateListCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:     "list NAME [ADDRESS...]",
		Short:   "List the resources in the state of a workspace",
		Long:    "List the addresses of the resources in the state of a workspace.\n\n" + runHelp,
		Example: "  captctl state list cluster/demo\n  captctl state list cluster/demo module.vpc -o json",
		Args:    addressArgs(0, -1),
	}, func(ctx context.Context, w *workspaceCall) error {
		addresses, err := w.readState(ctx, &terraform.StateCommand{Command: terraform.StateList, Args: w.args[1:]})
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(w.Out, text.NonNil(strings.FieldsFunc(string(addresses), func(r rune) bool { return r == '\n' })))
		}
		_, err = w.Out.Write(addresses)
		return err
	})
	addOutput(cmd, &output)
	return cmd
}

func newStateShowCommand(o *Options) *cobra.Command {
	var output text.Output
	var sensitive bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "show NAME ADDRESS",
		Short: "Show a resource in the state of a workspace",
		Long: `Show the attributes of a resource in the state of a workspace. ADDRESS is the
address of one instance, as captctl state list prints it. Sensitive values are masked
unless --show-sensitive is set.

` + runHelp,
		Example: "  captctl state show cluster/demo 'module.vpc.aws_vpc.this[0]'\n  captctl state show cluster/demo aws_vpc.main -o json",
		Args:    addressArgs(1, 1),
	}, func(ctx context.Context, w *workspaceCall) error {
		shown, err := w.readState(ctx, &terraform.StateCommand{Command: terraform.StateShow, Args: w.args[1:], JSON: output.Structured(), Sensitive: sensitive})
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(w.Out, json.RawMessage(shown))
		}
		_, err = w.Out.Write(shown)
		return err
	})
	cmd.Flags().BoolVar(&sensitive, "show-sensitive", false, "Show sensitive values.")
	addOutput(cmd, &output)
	return cmd
}

func newStatePullCommand(o *Options) *cobra.Command {
	var file string
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "pull NAME",
		Short: "Print or save the state of a workspace",
		Long: `Print the state of a workspace, or write it to a file that only you can read. An
encrypted state is decrypted. The state may contain secrets.

` + runHelp,
		Example: "  captctl state pull cluster/demo --out demo.tfstate",
	}, func(ctx context.Context, w *workspaceCall) error {
		state, err := w.readState(ctx, &terraform.StateCommand{Command: terraform.StatePull})
		if err != nil {
			return err
		}
		if len(state) == 0 {
			return fmt.Errorf("%s has no state", w.args[0])
		}
		if file != "" && file != "-" {
			return writePrivate(file, state)
		}
		_, err = text.Raw(w.Out).Write(append(state, '\n'))
		return err
	})
	cmd.Flags().StringVar(&file, "out", "", "Write the state to this file, with mode 0600.")
	return cmd
}

// writePrivate writes a file that only the user can read.
func writePrivate(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	// The file may have existed with another mode.
	err = file.Chmod(0o600)
	if err == nil {
		_, err = file.Write(content)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

func newStatePushCommand(o *Options) *cobra.Command {
	var force bool
	cmd := o.writeCommand(&cobra.Command{
		Use:   "push NAME FILE",
		Short: "Replace the state of a workspace",
		Long: `Replace the state of a workspace by the state in FILE, or by that of stdin if FILE
is -. The state must continue the current one: a state of another lineage, or with
an older serial, is refused unless --force is set.

` + runHelp + "\n\n" + writeHelp,
		Example: "  captctl state push cluster/demo demo.tfstate --hold",
		Args:    addressArgs(1, 1),
	}, func(w *workspaceCall) (*terraform.StateCommand, []byte, string, error) {
		content, err := w.readFile(w.args[1])
		if err == nil && len(bytes.TrimSpace(content)) == 0 {
			err = fmt.Errorf("reading the state: %s is empty", w.args[1])
		}
		return &terraform.StateCommand{Command: terraform.StatePush, Force: force}, content, "Replace the state of " + w.apply.Name + "?", err
	})
	cmd.Flags().BoolVar(&force, "force", false, "Accept another lineage and an older serial.")
	return cmd
}

func newStateMvCommand(o *Options) *cobra.Command {
	return o.writeCommand(&cobra.Command{
		Use:     "mv NAME ADDRESS NEW-ADDRESS",
		Short:   "Change the address of a resource in the state of a workspace",
		Long:    "Change the address of a resource or a module in the state of a workspace.\n\n" + runHelp + "\n\n" + writeHelp,
		Example: "  captctl state mv cluster/demo aws_vpc.old aws_vpc.new --hold",
		Args:    addressArgs(2, 2),
	}, func(w *workspaceCall) (*terraform.StateCommand, []byte, string, error) {
		return &terraform.StateCommand{Command: terraform.StateMv, Args: w.args[1:]}, nil, "Change the state of " + w.apply.Name + "?", nil
	})
}

func newStateRmCommand(o *Options) *cobra.Command {
	return o.writeCommand(&cobra.Command{
		Use:   "rm NAME ADDRESS...",
		Short: "Remove resources from the state of a workspace",
		Long: `Remove resources from the state of a workspace. The real resources stay, and CAPT
does not manage them any more. The next plan creates them again if the module still
has them.

` + runHelp + "\n\n" + writeHelp,
		Example: "  captctl state rm cluster/demo aws_vpc.old --hold",
		Args:    addressArgs(1, -1),
	}, func(w *workspaceCall) (*terraform.StateCommand, []byte, string, error) {
		return &terraform.StateCommand{Command: terraform.StateRm, Args: w.args[1:]}, nil, "Remove " + strings.Join(w.args[1:], ", ") + " from the state of " + w.apply.Name + "?", nil
	})
}

// writeCommand completes a command that changes the state. The function request
// returns the state command, the state to push, and the question to the user.
func (o *Options) writeCommand(cmd *cobra.Command, request func(*workspaceCall) (*terraform.StateCommand, []byte, string, error)) *cobra.Command {
	var flags stateFlags
	o.workspaceCommand(cmd, func(ctx context.Context, w *workspaceCall) error {
		command, input, question, err := request(w)
		if err != nil {
			return err
		}
		if err := flags.confirm(ctx, w, question); err != nil {
			return err
		}
		result, err := w.execute(ctx, command, input, flags.hold)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w.Out, result.CommandOutput); err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Changed the state of %s. %s\n", w.apply.Name, snapshotNote(result))
		return flags.waitForPlan(ctx, w)
	})
	flags.add(cmd)
	return cmd
}

// readState executes a command that only reads the state, and returns its output.
func (w *workspaceCall) readState(ctx context.Context, command *terraform.StateCommand) ([]byte, error) {
	key, err := record.NewKey()
	if err != nil {
		return nil, err
	}
	command.PublicKey = key.Public()
	result, err := w.execute(ctx, command, nil, false)
	if err != nil {
		return nil, err
	}
	text, err := operate.Output(ctx, w.client, w.apply, command, result, key)
	return text, errors.Join(err, w.deleteTransfer(ctx, record.OutputName(command.ID)))
}

// cleanupTimeout is how long captctl tries to delete what a command stored.
const cleanupTimeout = 30 * time.Second

// deleteTransfer deletes what a command stored, even if the user interrupts it.
func (w *workspaceCall) deleteTransfer(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return operate.DeleteTransfer(ctx, w.client, w.apply, name)
}

// execute requests a state command and waits for its result.
func (w *workspaceCall) execute(ctx context.Context, command *terraform.StateCommand, input []byte, hold bool) (*terraform.Result, error) {
	operation, err := operate.RequestCommand(ctx, w.client, w.apply, command, input, hold)
	if err != nil {
		return nil, err
	}
	last, err := w.waitUntil(ctx, operation, w.starting(), (*observed).ended)
	if err != nil {
		return nil, w.withdraw(ctx, operation, err)
	}
	result, err := operate.CommandResult(ctx, w.client, last.operation)
	if command.Input != "" {
		err = errors.Join(err, w.deleteTransfer(ctx, command.Input))
	}
	if err != nil {
		return nil, err
	}
	if result.Outcome != terraform.OutcomeSucceeded {
		// The tool names its own command.
		list := "captctl state list " + w.apply.Name
		problem := strings.NewReplacer(`"tofu state list"`, list, `"terraform state list"`, list).Replace(result.Diagnostics.Short())
		return nil, fmt.Errorf("state %s of %s: %s: %s", command.Command, w.apply.Name, result.Outcome, problem)
	}
	return result, nil
}

// withdraw handles a wait for a state command that ended early. A command that only reads is
// withdrawn if no run executes it: nothing could use its result.
func (w *workspaceCall) withdraw(ctx context.Context, operation *infrav1.WorkspaceOperation, waitErr error) error {
	if (&terraform.StateCommand{Command: operation.Spec.State.Command}).Writes() || errors.Is(waitErr, operate.ErrDeleted) || errors.Is(waitErr, errWithdrawn) {
		return w.stillRequested(waitErr, commandRequested)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	// An unreachable management cluster is the likely cause of both errors.
	if withdrawn, err := operate.Withdraw(ctx, w.client, operation, false); err != nil || !withdrawn {
		return w.stillRequested(waitErr, commandRequested)
	}
	if errors.Is(waitErr, context.Canceled) {
		fmt.Fprintln(w.Err, "Interrupted: the command is withdrawn")
	}
	return waitErr
}

// snapshotNote says where the state before a change is.
func snapshotNote(result *terraform.Result) string {
	if result.Snapshot == "" {
		return "There is no snapshot: the previous state has no resources"
	}
	return "The previous state is in snapshot " + result.Snapshot
}

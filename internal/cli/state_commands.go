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
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// addHold adds the --hold flag to a command.
func addHold(cmd *cobra.Command, hold *bool) {
	cmd.Flags().BoolVar(hold, "hold", false, "Let the plan that follows wait for approval, even with approval: Auto.")
}

// confirmStateChange asks the user a question about a change of the state. It warns if
// the plan that follows is applied without approval.
func (o *Options) confirmStateChange(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, yes, hold bool, question string) error {
	if !apply.DeletionTimestamp.IsZero() {
		return o.confirm(ctx, yes, fmt.Sprintf("%s is being deleted: the resources in its state will be destroyed afterwards. %s", apply.Name, question))
	}
	policy, err := operate.Policy(ctx, c, apply)
	if err != nil {
		return err
	}
	if policy.Approval != infrav1.ApprovalManual && !hold {
		question = "The next plan will be applied at once; use --hold to review it first. " + question
	}
	return o.confirm(ctx, yes, question)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			addresses, err := o.readState(cmd, args[0], &terraform.StateCommand{Command: terraform.StateList, Args: args[1:]})
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, text.NonNil(strings.FieldsFunc(string(addresses), func(r rune) bool { return r == '\n' })))
			}
			_, err = o.Out.Write(addresses)
			return err
		},
	}, nil)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			shown, err := o.readState(cmd, args[0], &terraform.StateCommand{Command: terraform.StateShow, Args: args[1:], JSON: output.Structured(), Sensitive: sensitive})
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, json.RawMessage(shown))
			}
			_, err = o.Out.Write(shown)
			return err
		},
	}, nil)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := o.readState(cmd, args[0], &terraform.StateCommand{Command: terraform.StatePull})
			if err != nil {
				return err
			}
			if len(state) == 0 {
				return fmt.Errorf("%s has no state", args[0])
			}
			if file != "" && file != "-" {
				return writePrivate(file, state)
			}
			_, err = text.Raw(o.Out).Write(append(state, '\n'))
			return err
		},
	}, nil)
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
	return o.writeCommand(&cobra.Command{
		Use:   "push NAME FILE",
		Short: "Replace the state of a workspace",
		Long: `Replace the state of a workspace by the state in FILE, or by that of stdin if FILE
is -. The state must continue the current one: a state of another lineage, or with
an older serial, is refused unless --force is set.

` + runHelp + "\n\n" + writeHelp,
		Example: "  captctl state push cluster/demo demo.tfstate --hold",
		Args:    addressArgs(1, 1),
	}, func(cmd *cobra.Command) {
		cmd.Flags().BoolVar(&force, "force", false, "Accept another lineage and an older serial.")
	},
		func(args []string) (*terraform.StateCommand, []byte, string, error) {
			content, err := o.readFile(args[1])
			if err == nil && len(bytes.TrimSpace(content)) == 0 {
				err = fmt.Errorf("reading the state: %s is empty", args[1])
			}
			return &terraform.StateCommand{Command: terraform.StatePush, Force: force}, content, "Replace the state of %s?", err
		})
}

func newStateMvCommand(o *Options) *cobra.Command {
	return o.writeCommand(&cobra.Command{
		Use:     "mv NAME ADDRESS NEW-ADDRESS",
		Short:   "Change the address of a resource in the state of a workspace",
		Long:    "Change the address of a resource or a module in the state of a workspace.\n\n" + runHelp + "\n\n" + writeHelp,
		Example: "  captctl state mv cluster/demo aws_vpc.old aws_vpc.new --hold",
		Args:    addressArgs(2, 2),
	}, func(*cobra.Command) {}, func(args []string) (*terraform.StateCommand, []byte, string, error) {
		return &terraform.StateCommand{Command: terraform.StateMv, Args: args[1:]}, nil, "Change the state of %s?", nil
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
	}, func(*cobra.Command) {}, func(args []string) (*terraform.StateCommand, []byte, string, error) {
		return &terraform.StateCommand{Command: terraform.StateRm, Args: args[1:]}, nil, "Remove " + strings.ReplaceAll(strings.Join(args[1:], ", "), "%", "%%") + " from the state of %s?", nil
	})
}

// writeCommand completes a command that changes the state. The function request
// returns the state command, the state to push, and the question with a verb for the
// name of the workspace.
func (o *Options) writeCommand(cmd *cobra.Command, addFlags func(*cobra.Command), request func(args []string) (*terraform.StateCommand, []byte, string, error)) *cobra.Command {
	var yes, hold, wait bool
	o.workspaceCommand(cmd, func(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, args []string) error {
		command, input, question, err := request(args)
		if err != nil {
			return err
		}
		if err := o.confirmStateChange(ctx, c, apply, yes, hold, fmt.Sprintf(question, apply.Name)); err != nil {
			return err
		}
		result, err := o.execute(ctx, c, apply, command, input, hold)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(o.Out, result.CommandOutput); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "Changed the state of %s. %s\n", apply.Name, snapshotNote(result))
		if !wait {
			return nil
		}
		return o.waitForResult(ctx, c, apply, nil, o.starting(), planFollows, (*observed).planned)
	})
	addFlags(cmd)
	addHold(cmd, &hold)
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

// readState executes a command that only reads the state, and returns its output.
func (o *Options) readState(cmd *cobra.Command, name string, command *terraform.StateCommand) ([]byte, error) {
	ctx := cmd.Context()
	c, apply, err := o.workspace(cmd, name)
	if err != nil {
		return nil, err
	}
	key, err := record.NewKey()
	if err != nil {
		return nil, err
	}
	command.PublicKey = key.Public()
	result, err := o.execute(ctx, c, apply, command, nil, false)
	if err != nil {
		return nil, err
	}
	text, err := operate.Output(ctx, c, apply, command, result, key)
	return text, errors.Join(err, deleteTransfer(ctx, c, apply, record.OutputName(command.ID)))
}

// cleanupTimeout is how long captctl tries to delete what a command stored.
const cleanupTimeout = 30 * time.Second

// deleteTransfer deletes what a command stored, even if the user interrupts it.
func deleteTransfer(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return operate.DeleteTransfer(ctx, c, apply, name)
}

// execute requests a state command and waits for its result.
func (o *Options) execute(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, command *terraform.StateCommand, input []byte, hold bool) (*terraform.Result, error) {
	operation, err := operate.RequestCommand(ctx, c, apply, command, input, hold)
	if err != nil {
		return nil, err
	}
	last, err := o.waitUntil(ctx, c, apply, operation, o.starting(), (*observed).ended)
	if err != nil {
		return nil, o.withdraw(ctx, c, operation, err)
	}
	result, err := operate.CommandResult(ctx, c, last.operation)
	if command.Input != "" {
		err = errors.Join(err, deleteTransfer(ctx, c, apply, command.Input))
	}
	if err != nil {
		return nil, err
	}
	if result.Outcome != terraform.OutcomeSucceeded {
		// The tool names its own command.
		list := "captctl state list " + apply.Name
		problem := strings.NewReplacer(`"tofu state list"`, list, `"terraform state list"`, list).Replace(result.Diagnostics.Short())
		return nil, fmt.Errorf("state %s of %s: %s: %s", command.Command, apply.Name, result.Outcome, problem)
	}
	return result, nil
}

// withdraw handles a wait for a state command that ended early. A command that only reads is
// withdrawn if no run executes it: nothing could use its result.
func (o *Options) withdraw(ctx context.Context, c client.Client, operation *infrav1.WorkspaceOperation, waitErr error) error {
	if (&terraform.StateCommand{Command: operation.Spec.State.Command}).Writes() || errors.Is(waitErr, operate.ErrDeleted) || errors.Is(waitErr, errWithdrawn) {
		return o.stillRequested(waitErr, commandRequested)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	// An unreachable management cluster is the likely cause of both errors.
	if withdrawn, err := operate.Withdraw(ctx, c, operation, false); err != nil || !withdrawn {
		return o.stillRequested(waitErr, commandRequested)
	}
	if errors.Is(waitErr, context.Canceled) {
		fmt.Fprintln(o.Err, "Interrupted: the command is withdrawn")
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

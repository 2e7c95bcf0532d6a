package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/operation"
)

func newRunCommand(o *Options) *cobra.Command {
	var once terraform.OneShot
	var imports []string
	var yes, wait bool
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "run NAME",
		Short: "Run one special operation: replace, target, import or refresh",
		Long: `Run one special operation of a workspace: replace a resource, limit the plan to some
resources, import existing resources, or only refresh the state. The plan is subject to policies, protected resources and approval like any
other, and the history of the workspace records the operation and who requested it.

With approval: Auto the plan is applied at once; use --hold to let it wait for approval,
or --plan-only to see it and apply nothing. A request is executed once, whatever its
outcome. What remains of the inputs after a run that is limited to some resources is
applied by the next run.

To import, you need the permission of an approver where approval is enforced.`,
		Example: `  captctl run cluster/demo --replace 'module.nodes.aws_launch_template.this[0]' --hold
  captctl run network-a --target module.vpc
  captctl run network-a --import aws_vpc.main=vpc-0123456789abcdef0
  captctl run network-a --refresh-only --yes
  captctl run network-a --plan-only -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			for _, text := range imports {
				imported, err := terraform.ParseImport(text)
				if err != nil {
					return usageError("%w", err)
				}
				once.Import = append(once.Import, imported)
			}
			if err := checkOperation(once); err != nil {
				return err
			}
			w, err := o.workspace(ctx, args)
			if err != nil {
				return err
			}
			if err := operate.CheckOneShot(ctx, w.client, w.apply, &once); err != nil {
				return err
			}
			if err := w.confirmOneShot(ctx, &once, yes); err != nil {
				return err
			}
			if wait {
				return w.runOnce(ctx, &once, output)
			}
			operation, err := operate.RunOnce(ctx, w.client, w.apply, &once)
			if err != nil {
				return err
			}
			return w.printRequest(operation, output)
		},
	}, nil)
	// String slices would parse the quotes of an address as CSV.
	cmd.Flags().StringArrayVar(&once.Replace, "replace", nil, "Address of a resource instance to replace. Can be repeated.")
	cmd.Flags().StringArrayVar(&once.Target, "target", nil, "Address of a resource or module to limit the plan to, with what it depends on. Can be repeated.")
	cmd.Flags().BoolVar(&once.RefreshOnly, "refresh-only", false, "Update the state to the real resources, and change none of them.")
	cmd.Flags().StringArrayVar(&imports, "import", nil, "Existing resource to import, as ADDRESS=ID. Can be repeated.")
	cmd.Flags().BoolVar(&once.PlanOnly, "plan-only", false, "Show the plan and apply nothing. Can be combined with one of the others.")
	cmd.Flags().BoolVar(&once.Hold, "hold", false, "Let the plan wait for approval, even with approval: Auto.")
	cmd.Flags().BoolVar(&wait, "wait", true, "Show the progress and wait for the result. The exit code is 1 if the run fails or its plan is refused.")
	addTimeout(cmd, &wait)
	addYes(cmd, &yes)
	addOutput(cmd, &output)
	return cmd
}

// runOnce executes a one-shot operation, and prints what became of it.
func (w *workspaceCall) runOnce(ctx context.Context, once *terraform.OneShot, output text.Output) error {
	operation, err := operate.RunOnce(ctx, w.client, w.apply, once)
	if err != nil {
		return err
	}
	result, err := w.waitForOneShot(ctx, operation, w.starting(), runRequested, func(s *observed) bool { return s.ended() || s.waits() })
	if err != nil {
		return err
	}
	return w.printOneShot(ctx, result, output)
}

// checkOperation returns a usage error for flags that do not fit. The ID is set later.
func checkOperation(operation terraform.OneShot) error {
	operation.ID = "x"
	switch err := operation.Validate(); {
	case err == nil:
		return nil
	// These texts of Validate name the fields of a WorkspaceOperation.
	case errors.Is(err, terraform.ErrNothingRequested):
		return usageError("nothing is requested: pass --replace, --target, --refresh-only, --import or --plan-only: see captctl run --help")
	case errors.Is(err, terraform.ErrExclusive):
		return usageError("--replace, --target, --refresh-only and --import exclude each other: request one after the other")
	case errors.Is(err, terraform.ErrHeldWithoutApply):
		return usageError("--plan-only and --hold exclude each other: a plan that is not applied needs no approval")
	default:
		return usageError("%w: see captctl run --help", err)
	}
}

// confirmOneShot asks the user unless the plan is not applied without approval.
func (w *workspaceCall) confirmOneShot(ctx context.Context, operation *terraform.OneShot, yes bool) error {
	if operation.PlanOnly || operation.Hold {
		return nil
	}
	policy, err := operate.Policy(ctx, w.client, w.apply)
	if err != nil || policy.Approval == infrav1.ApprovalManual {
		return err
	}
	return w.confirm(ctx, yes, fmt.Sprintf("The plan will be applied at once; use --hold or --plan-only to review it first. Run %s with %s?", w.apply.Name, operation.Arguments()))
}

func (w *workspaceCall) printRequest(requested *infrav1.WorkspaceOperation, output text.Output) error {
	arguments := operation.OneShot(requested).Arguments()
	if output.Structured() {
		return output.Print(w.Out, operate.OneShotResult{Workspace: w.apply.Name, Request: infrav1.RunRequest{ID: string(requested.UID), Arguments: arguments}})
	}
	fmt.Fprintf(w.Out, "Requested a run of %s with %s: follow it with %s\n", w.apply.Name, arguments, w.followHint())
	return nil
}

// waitForOneShot waits until a run with options has ended or its plan waits for approval. If
// the wait ends early, its error says what remains.
func (w *workspaceCall) waitForOneShot(ctx context.Context, operation *infrav1.WorkspaceOperation, line, remains string, done func(*observed) bool) (*operate.OneShotResult, error) {
	last, err := w.waitUntil(ctx, operation, line, done)
	if err != nil {
		return nil, w.stillRequested(err, remains)
	}
	return operate.ResultOf(ctx, w.client, last.apply, last.operation)
}

// printOneShot prints what became of a one-shot operation. It returns an error if it failed
// or its plan was refused.
func (w *workspaceCall) printOneShot(ctx context.Context, result *operate.OneShotResult, output text.Output) error {
	if output.Structured() {
		if result.Plan != nil {
			if err := result.Plan.ReadDetails(ctx, w.client, w.apply); err != nil {
				return err
			}
		}
		return errors.Join(output.Print(w.Out, result), oneShotFailure(result))
	}
	// A plan that was applied at once is not stored with its values.
	if result.Plan != nil && (result.Run == nil || result.Run.Outcome != infrav1.RunOutcome(terraform.OutcomeSucceeded)) {
		if err := printPlan(w.Out, result.Plan, changesOf(ctx, w.client, w.apply, result.Plan), w.style(), time.Now()); err != nil {
			return err
		}
	}
	if err := oneShotFailure(result); err != nil {
		return err
	}
	if result.Waiting {
		fmt.Fprintf(w.Out, "%s is waiting for approval: %s\n", w.apply.Name, w.hints("apply the plan with captctl approve "+w.apply.Name+", or discard it with captctl reject "+w.apply.Name))
		return nil
	}
	fmt.Fprintf(w.Out, "Run %s of %s: %s: %s\n", result.Run.ID, w.apply.Name, result.Run.Outcome, message.OneLine(result.Run.Summary))
	return nil
}

// oneShotFailure returns why a one-shot operation was not executed, or nil.
func oneShotFailure(result *operate.OneShotResult) error {
	if result.Waiting {
		return nil
	}
	if result.Run == nil {
		return fmt.Errorf("the request for %s ended without a run: %s", result.Workspace, message.OneLine(result.Message))
	}
	switch run := result.Run; terraform.Outcome(run.Outcome) {
	case terraform.OutcomeSucceeded, terraform.OutcomeNoChanges, terraform.OutcomePlanned:
		return nil
	case terraform.OutcomeDenied:
		return fmt.Errorf("run %s: a policy denies the plan, so nothing was applied", run.ID)
	case terraform.OutcomeBlocked:
		return fmt.Errorf("run %s: the plan would destroy or replace protected resources, or does not find them, so nothing was applied: repeat it with --hold, then allow it with captctl approve --allow-destroy", run.ID)
	default:
		return fmt.Errorf("run %s: %s: %s", run.ID, run.Outcome, message.OneLine(run.Summary))
	}
}

func newReconcileCommand(o *Options) *cobra.Command {
	var wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "reconcile NAME",
		Short: "Start a new run of a workspace",
		Long: `Start a new run of a workspace, whether the last run failed or succeeded. With
approval: Auto the new plan is applied, with approval: Manual it waits for
approval.`,
		Example: `  captctl reconcile cluster/demo
  captctl reconcile network-a --wait`,
	}, func(ctx context.Context, w *workspaceCall) error {
		operation, err := operate.Retry(ctx, w.client, w.apply)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Requested a run of %s: follow it with %s\n", w.apply.Name, w.followHint())
		if !wait {
			return nil
		}
		return w.waitForResult(ctx, operation, w.starting(), runRequested, (*observed).ended)
	})
	addWait(cmd, &wait)
	return cmd
}

func newCancelCommand(o *Options) *cobra.Command {
	var runID string
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "cancel NAME",
		Short: "Cancel the current run of a workspace",
		Long: `Cancel the current run of a workspace as Ctrl-C would: Terraform finishes its
current operations and saves the state. The workspace has no new run until its
inputs change or a run is requested with captctl reconcile.`,
		Example: "  captctl cancel cluster/demo --wait",
	}, func(ctx context.Context, w *workspaceCall) error {
		run, err := operate.CurrentRun(w.apply, runID)
		if err != nil {
			return err
		}
		if err := w.confirm(ctx, yes, fmt.Sprintf("Cancel run %s (%s)?", run.ID, run.Operation)); err != nil {
			return err
		}
		if err := operate.Cancel(ctx, w.client, w.apply, run); err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Requested cancellation of run %s\n", run.ID)
		if !wait {
			return nil
		}
		_, err = w.waitUntil(ctx, nil, "", func(s *observed) bool {
			return s.apply.Status.Run == nil || s.apply.Status.Run.ID != run.ID
		})
		if err != nil {
			return w.stillRequested(err, cancelRequested)
		}
		return nil
	})
	cmd.Flags().StringVar(&runID, "run", "", "ID of the run to cancel. The command fails if another run is in progress.")
	addYes(cmd, &yes)
	cmd.Flags().BoolVar(&wait, "wait", false, "Show the progress and wait until the run has stopped.")
	addTimeout(cmd, &wait)
	return cmd
}

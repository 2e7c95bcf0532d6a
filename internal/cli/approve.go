package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/terraform"
)

func newApproveCommand(o *Options) *cobra.Command {
	var planID, comment string
	var allowDestroy []string
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the waiting plan of a workspace",
		Long: `Approve the waiting plan of a workspace. CAPT then applies exactly this plan. A plan
waits if the workspace has approval: Manual, if a policy requires approval, if it would
destroy protected resources, if it was requested with captctl run --hold, or if the
workspace is being deleted and has destroyApproval: Manual.

The command prints the plan and asks for confirmation, unless --plan or --yes is
set.`,
		Example: `  captctl approve cluster/demo
  captctl approve network-a --plan plan-0123456789abcdef --wait
  captctl approve network-a --allow-destroy module.vpc.aws_vpc.this --comment "Agreed with the network team"`,
	}, func(ctx context.Context, w *workspaceCall) error {
		plan, err := operate.WaitingPlan(w.apply, planID)
		if err != nil {
			return err
		}
		addresses := terraform.ParseAddresses(strings.Join(allowDestroy, ","))
		if err := operate.CheckProtected(plan, addresses); err != nil {
			return err
		}
		if planID == "" && !yes {
			whole, err := operate.PlanOf(ctx, w.client, w.apply)
			if err != nil {
				return err
			}
			if err := printPlan(w.Out, whole, changesOf(ctx, w.client, w.apply, whole), w.style(), time.Now()); err != nil {
				return err
			}
		}
		if err := w.confirm(ctx, yes || planID != "", question(w.apply, plan)); err != nil {
			return err
		}
		if err := operate.Approve(ctx, w.client, w.apply, plan, addresses, comment); err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Approved plan %s of %s\n", plan.ID, w.apply.Name)
		if !wait {
			return nil
		}
		line := "Waiting until plan " + plan.ID + " is applied"
		if plan.Request == nil {
			return w.waitForResult(ctx, nil, line, planApproved, func(s *observed) bool { return decided(s.apply, plan.ID) })
		}
		operation, err := operate.OneShotOf(ctx, w.client, w.apply, plan)
		if err != nil {
			return err
		}
		result, err := w.waitForOneShot(ctx, operation, line, planApproved, func(s *observed) bool {
			// If the plan was outdated, another one waits.
			return s.ended() || s.waits() && s.apply.Status.Plan != nil && s.apply.Status.Plan.ID != plan.ID
		})
		if err != nil {
			return err
		}
		return w.printOneShot(ctx, result, "")
	})
	cmd.Flags().StringVar(&planID, "plan", "", "ID of the plan to approve. The command fails if another plan is waiting, and does not ask for confirmation.")
	// A string slice would parse the quotes of an address as CSV.
	cmd.Flags().StringArrayVar(&allowDestroy, "allow-destroy", nil, "Addresses of protected resources that may be destroyed, separated by commas.")
	addComment(cmd, &comment)
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

func addComment(cmd *cobra.Command, comment *string) {
	cmd.Flags().StringVar(comment, "comment", "", "Comment on the decision, which the status of the workspace shows.")
}

// question returns what the user confirms.
func question(apply *infrav1.WorkspaceTemplateApply, plan *infrav1.PlanStatus) string {
	if plan.Operation == infrav1.PlanDestroy {
		return fmt.Sprintf("Destroy %d resources of %s, which is being deleted, with plan %s?", plan.Destroy, apply.Name, plan.ID)
	}
	return fmt.Sprintf("Apply plan %s to %s?", plan.ID, apply.Name)
}

// decided reports whether an approved plan is applied, failed or replaced.
func decided(apply *infrav1.WorkspaceTemplateApply, planID string) bool {
	if apply.Status.Run != nil {
		return false
	}
	plan := apply.Status.Plan
	return plan == nil || plan.ID != planID || !ptr.Deref(plan.Waiting, false) || apply.Status.Failure != nil
}

func newRejectCommand(o *Options) *cobra.Command {
	var planID, comment string
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "reject NAME",
		Short: "Reject the waiting plan of a workspace",
		Long: `Reject the waiting plan of a workspace. Nothing is applied until the inputs change
or a new plan is requested with captctl reconcile. If the workspace is being deleted, its
resources stay until then.`,
		Example: `  captctl reject network-a --plan plan-0123456789abcdef --comment "Wait for the maintenance window"`,
	}, func(ctx context.Context, w *workspaceCall) error {
		plan, err := operate.WaitingPlan(w.apply, planID)
		if err != nil {
			return err
		}
		if err := operate.Reject(ctx, w.client, w.apply, plan, comment); err != nil {
			return err
		}
		fmt.Fprintf(w.Out, "Rejected plan %s of %s: change the inputs, or request a new plan with %s\n", plan.ID, w.apply.Name, w.hints("captctl reconcile "+w.args[0]))
		return nil
	})
	cmd.Flags().StringVar(&planID, "plan", "", "ID of the plan to reject. The command fails if another plan is waiting.")
	addComment(cmd, &comment)
	return cmd
}

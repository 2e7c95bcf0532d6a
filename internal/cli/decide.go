package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/describe"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

func newApproveCommand(o *Options) *cobra.Command {
	var plan string
	var allowDestroy []string
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "approve NAME",
		Short: "Let the waiting plan of a workspace be applied",
		Long: `Let the waiting plan of a workspace be applied. Exactly that plan is, and no
other. It is shown before, unless --plan names it.`,
		Example: `  captctl approve cluster/demo
  captctl approve network-a --plan plan-0123456789abcdef --wait
  captctl approve network-a --allow-destroy module.vpc.aws_vpc.this`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			waiting, err := operate.WaitingPlan(apply, plan)
			if err != nil {
				return err
			}
			release := terraform.ParseAddresses(strings.Join(allowDestroy, ","))
			if err := operate.CheckProtected(apply, waiting, release); err != nil {
				return err
			}
			if plan == "" && !yes {
				if err := o.showPlan(ctx, c, apply); err != nil {
					return err
				}
			}
			if err := o.confirm(yes || plan != "", fmt.Sprintf("Apply plan %s to %s?", waiting.ID, apply.Name)); err != nil {
				return err
			}
			if err := operate.Approve(ctx, c, apply, waiting, release); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Approved %s of %s\n", waiting.ID, apply.Name)
			return o.awaitIf(ctx, wait, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
				p := a.Status.Plan
				return a.Status.Run == nil && (p == nil || p.ID != waiting.ID || p.Waiting == nil || !*p.Waiting || a.Status.Failure != nil)
			})
		},
	})
	cmd.Flags().StringVar(&plan, "plan", "", "approve only if this plan is the one that waits; nothing is asked then")
	// A string slice would read the quotes of an address as those of CSV.
	cmd.Flags().StringArrayVar(&allowDestroy, "allow-destroy", nil, "addresses of protected resources that may be destroyed, separated by commas")
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

func newRejectCommand(o *Options) *cobra.Command {
	var plan string
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "reject NAME",
		Short: "Turn the waiting plan of a workspace down",
		Long: `Turn the waiting plan of a workspace down. Nothing is applied until the inputs
change, or somebody asks for another plan with retry.`,
		Example: "  captctl reject network-a --plan plan-0123456789abcdef",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			waiting, err := operate.WaitingPlan(apply, plan)
			if err != nil {
				return err
			}
			if err := operate.Reject(cmd.Context(), c, apply, waiting); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Rejected %s of %s: change the inputs, or ask for another plan with captctl retry %s\n", waiting.ID, apply.Name, args[0])
			return nil
		},
	})
	cmd.Flags().StringVar(&plan, "plan", "", "reject only if this plan is the one that waits")
	return cmd
}

func newCancelCommand(o *Options) *cobra.Command {
	var run string
	var yes, wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "cancel NAME",
		Short: "Stop the run of a workspace",
		Long: `Stop the run of a workspace as Ctrl-C would: Terraform finishes what it is at
and saves its state. The run is not tried again until the inputs change, or
somebody asks for it with retry.`,
		Example: "  captctl cancel cluster/demo --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			current, err := operate.CurrentRun(apply, run)
			if err != nil {
				return err
			}
			if err := o.confirm(yes, fmt.Sprintf("Stop run %s (%s)?", current.ID, current.Operation)); err != nil {
				return err
			}
			if err := operate.Cancel(ctx, c, apply, current); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Asked run %s to stop\n", current.ID)
			if !wait {
				return nil
			}
			_, err = o.await(ctx, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
				return a.Status.Run == nil || a.Status.Run.ID != current.ID
			})
			return err
		},
	})
	cmd.Flags().StringVar(&run, "run", "", "stop only if this run is the one that goes on")
	addYes(cmd, &yes)
	addWait(cmd, &wait)
	return cmd
}

func newRetryCommand(o *Options) *cobra.Command {
	var wait bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "retry NAME",
		Short: "Ask for a run of a workspace now",
		Long: `Ask for a run of a workspace now, whether or not the one before failed. With
approval: Auto what it plans is applied, with Manual the new plan waits.`,
		Example: `  captctl retry cluster/demo
  captctl retry network-a --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			request, err := operate.Retry(ctx, c, apply)
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "Asked for a run of %s: follow it with captctl logs -f %s\n", apply.Name, args[0])
			return o.awaitIf(ctx, wait, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
				return a.Status.HandledRequest == request && a.Status.Run == nil
			})
		},
	})
	addWait(cmd, &wait)
	return cmd
}

func (o *Options) showPlan(ctx context.Context, c client.Client, apply *infrav1.WorkspaceTemplateApply) error {
	plan, err := operate.PlanOf(ctx, c, apply)
	if err != nil {
		return err
	}
	return printPlan(o.Out, plan, o.style(), time.Now())
}

// addWait gives a command the flag --wait.
func addWait(cmd *cobra.Command, wait *bool) {
	cmd.Flags().BoolVar(wait, "wait", false, "show the progress until it is done; fail if it fails")
}

// awaitIf waits, if it is asked to, and fails if the workspace is not well then.
func (o *Options) awaitIf(ctx context.Context, wait bool, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, done func(*infrav1.WorkspaceTemplateApply) bool) error {
	if !wait {
		return nil
	}
	last, err := o.await(ctx, c, apply, done)
	if err != nil {
		return err
	}
	applied := meta.FindStatusCondition(last.Status.Conditions, infrav1.AppliedCondition)
	switch {
	case applied == nil:
		return nil
	case applied.Status == metav1.ConditionTrue:
		fmt.Fprintf(o.Out, "%s is applied: %s\n", last.Name, message.OneLine(applied.Message))
		return nil
	case applied.Reason == infrav1.WaitingForApprovalReason:
		fmt.Fprintf(o.Out, "%s waits for approval: look with captctl plan %s\n", last.Name, last.Name)
		return nil
	default:
		return fmt.Errorf("%s: %s: %s", last.Name, applied.Reason, applied.Message)
	}
}

// await shows the progress of a workspace until it is done.
func (o *Options) await(ctx context.Context, c client.WithWatch, apply *infrav1.WorkspaceTemplateApply, done func(*infrav1.WorkspaceTemplateApply) bool) (*infrav1.WorkspaceTemplateApply, error) {
	p := o.progress()
	defer p.end()
	var last *infrav1.WorkspaceTemplateApply
	err := operate.Watch(ctx, c, &infrav1.WorkspaceTemplateApplyList{}, client.ObjectKeyFromObject(apply), func(a *infrav1.WorkspaceTemplateApply) (bool, error) {
		last = a
		if meta.IsStatusConditionTrue(a.Status.Conditions, infrav1.PausedCondition) {
			return false, fmt.Errorf("%s is paused: it goes on when the pause ends", a.Name)
		}
		if run := a.Status.Run; run != nil {
			p.show(describe.Line(describe.RunNode(run), time.Time{}))
		} else if c := meta.FindStatusCondition(a.Status.Conditions, infrav1.AppliedCondition); c != nil && c.Status != metav1.ConditionTrue {
			p.show(c.Reason + ": " + message.OneLine(c.Message))
		}
		return done(a), nil
	})
	return last, err
}

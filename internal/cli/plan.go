package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/changes"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

const markdown text.Output = "markdown"

// showPlanHelp describes captctl show plan.
const showPlanHelp = `Show the latest plan of a workspace in the format of Terraform: what it creates (+),
updates in place (~), replaces (-/+) and destroys (-), with the old and new values of
each attribute. Sensitive values are never shown; they are masked before the plan is
stored. The rules of policies that the plan violates are listed as well.

Values are in the WorkspacePlan of the run, which the role capt-viewer may read. They are
kept for the latest plans that waited for a decision or changed existing resources; other
plans are shown as a list of resources. captctl state show has the values of what was
created. --run shows the plan of an earlier run, which requires permission to read Secrets.`

// planHelp describes captctl plan.
const planHelp = `Plan a workspace with its current inputs, and show the plan. A run of the workspace makes
the plan, so it locks the state, and applies nothing. captctl show plan shows the plan that
waits for approval, without a run.

With --dir the command plans the root module in a directory instead, such as that of a
pull request, against the state of the workspace. Nothing is locked, and nothing is written
except a temporary directory, which is removed. The values of the workspace, its
policies and its protected resources apply. The plan runs on this machine, with your
permissions: you must be allowed to read the Secrets with the state, the values and the
credentials of the workspace. The tool inherits your environment except variables TF_*.

With --dir, the exit code is 0 if the plans succeed, with or without changes; 1 if one
fails, or a policy or protected resources would refuse it; 2 for wrong usage; and, with
--detailed-exitcode, 3 if there are changes.`

func newPlanCommand(o *Options) *cobra.Command {
	s := &speculateCall{Options: o}
	wait := true
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "plan NAME",
		Short: "Plan a workspace, or the module of a directory",
		Long:  planHelp,
		Example: `  captctl plan cluster/demo
  captctl plan cluster/demo/vpc -o json

  # Plan the module of a pull request for one workspace, or for all that use a template.
  captctl plan network-a --dir modules/network
  captctl plan --dir modules/network --template network -o markdown > comment.md`,
		Args: func(cmd *cobra.Command, args []string) error { return s.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.dir != "" {
				return s.run(cmd.Context(), args)
			}
			if s.output == markdown || s.short {
				return usageError("-o markdown and --short need --dir, or captctl show plan")
			}
			w, err := o.workspace(cmd.Context(), args)
			if err != nil {
				return err
			}
			return w.runOnce(cmd.Context(), &terraform.OneShot{PlanOnly: true}, s.output)
		},
	}, nil)
	s.add(cmd)
	addTimeout(cmd, &wait)
	return cmd
}

func newShowCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{Use: "show", Short: "Show the plan of a workspace"}, newShowPlanCommand(o))
}

func newShowPlanCommand(o *Options) *cobra.Command {
	var output text.Output
	var run string
	var short bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "plan NAME",
		Short: "Show the latest plan of a workspace",
		Long:  showPlanHelp,
		Example: `  captctl show plan network-a
  captctl show plan cluster/demo --short
  captctl show plan network-a --run network-a-r7
  captctl show plan cluster/demo/vpc -o markdown > comment.md`,
	}, func(ctx context.Context, w *workspaceCall) error {
		plan, err := operate.PlanOfRun(ctx, w.client, w.apply, run)
		if err != nil {
			return err
		}
		read := changesOf(ctx, w.client, w.apply, plan)
		if short {
			read = func(func(change.Entry) error) (bool, error) { return false, nil }
		}
		switch output {
		case markdown:
			return printMarkdown(w.Out, plan, read, commentLimit)
		case "":
			return printPlan(w.Out, plan, read, w.style(), time.Now())
		}
		if !short {
			if err := plan.ReadDetails(ctx, w.client, w.apply); err != nil {
				return err
			}
		}
		return output.Print(w.Out, plan)
	})
	addFormat(cmd, &output, text.JSON, text.YAML, markdown)
	cmd.Flags().StringVar(&run, "run", "", "Show the plan of this run instead of the latest plan. captctl history lists the runs.")
	cmd.Flags().BoolVar(&short, "short", false, "List the changed resources without values.")
	return cmd
}

// changeReader passes the changes of a plan with values to emit. It returns false if
// they are not available.
type changeReader func(emit func(change.Entry) error) (bool, error)

func changesOf(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, plan *operate.Plan) changeReader {
	return func(emit func(change.Entry) error) (bool, error) {
		return operate.PlanChanges(ctx, c, apply, plan, emit)
	}
}

// printPlan prints a plan in the format of Terraform.
func printPlan(w io.Writer, plan *operate.Plan, read changeReader, style text.Style, now time.Time) error {
	header := fmt.Sprintf("%s %s of %s%s, created %s ago by run %s%s\n\n", planTitle(plan), plan.ID, plan.Workspace, planRequest(plan), text.Age(now, plan.CreatedAt.Time), plan.Run, planState(plan))
	if plan.Directory != "" {
		header = fmt.Sprintf("%s of %s with the module in %s\n\n", planTitle(plan), plan.Workspace, plan.Directory)
	}
	if _, err := io.WriteString(w, header); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	printer := &changes.Printer{Out: w, Style: style, Protected: plan.Blocked}
	detailed, err := read(printer.Print)
	if err != nil && !errors.Is(err, operate.ErrNoPlans) {
		return err
	}
	var out strings.Builder
	if !detailed {
		out.WriteString(listResources(plan, style))
	}
	if err != nil {
		out.WriteString("\n" + style.Paint(text.Yellow, hiddenValues(plan)) + "\n")
	}
	if note := unchangedNote(plan); note != "" {
		out.WriteString(note + "\n\n")
	} else if !detailed {
		out.WriteString("\n")
	}
	out.WriteString(listViolations(plan.Violations, style))
	fmt.Fprintf(&out, "%s %s.\n", style.Paint(text.Bold, "Plan:"), planCounts(plan))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}

// planCounts returns what a plan changes, in numbers.
func planCounts(plan *operate.Plan) string {
	if plan.Refresh > 0 {
		return fmt.Sprintf("%d resources of the state to update", plan.Refresh)
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", plan.Add, plan.Change, plan.Destroy)
}

// planRequest returns the one-shot operation of a plan in parentheses, or an empty string.
func planRequest(plan *operate.Plan) string {
	if plan.Request == nil {
		return ""
	}
	by := ""
	if user := plan.Request.RequestedBy; user != "" {
		by = ", requested by " + user
	}
	return " (" + message.OneLine(plan.Request.Arguments) + by + ")"
}

// unchangedNote returns a sentence about a plan that changes no resource.
func unchangedNote(plan *operate.Plan) string {
	switch {
	case plan.Refresh > 0:
		return "No resource changes. The state is updated to the real resources."
	case plan.OutputsOnly && len(plan.Resources) == 0:
		return "Only outputs change."
	case len(plan.Resources) == 0:
		return "No changes."
	default:
		return ""
	}
}

// listResources returns the changed resources, one per line.
func listResources(plan *operate.Plan, style text.Style) string {
	var out strings.Builder
	for _, resource := range plan.Resources {
		symbol, colour, sentence := changes.Describe(resource)
		if slices.Contains(plan.Blocked, resource.Address) {
			sentence += style.Paint(text.Red, " (protected)")
		}
		out.WriteString(style.Paint(colour, fmt.Sprintf("%3s", symbol)) + " " + sentence + "\n")
	}
	if plan.OmittedChanges > 0 {
		fmt.Fprintf(&out, "    and %d more\n", plan.OmittedChanges)
	}
	return out.String()
}

// planTitle returns the kind of a plan.
func planTitle(plan *operate.Plan) string {
	switch {
	case plan.Directory != "":
		return "Speculative plan"
	case plan.Operation == infrav1.PlanDestroy:
		return "Destroy plan"
	default:
		return "Plan"
	}
}

// hiddenValues returns why a user does not see the values of a plan.
func hiddenValues(plan *operate.Plan) string {
	if len(plan.Resources) == 0 {
		return ""
	}
	return "The values are not shown: " + operate.ErrNoPlans.Error() + " in this namespace. The role capt-viewer has the permission."
}

// planState returns whether a plan waits or was applied, or an empty string if that is not
// known.
func planState(plan *operate.Plan) string {
	switch {
	case plan.Outcome == infrav1.RunOutcome(terraform.OutcomeSucceeded):
		return ", applied"
	case plan.Outcome == infrav1.RunOutcome(terraform.OutcomeNoChanges):
		return ""
	case plan.Outcome != "":
		return fmt.Sprintf(", not or not completely applied: the run ended as %s", plan.Outcome)
	case !ptr.Deref(plan.Waiting, false):
		return ""
	case plan.PolicyAction == infrav1.PolicyDeny:
		return ", denied by a policy"
	case len(plan.Blocked) > 0:
		return ", blocked by protected resources"
	default:
		return ", waiting for approval"
	}
}

package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
)

func newPlanCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "plan NAME",
		Short: "Show the latest plan of a workspace",
		Long: `Show the latest plan of a workspace: the resources that it creates (+), updates in
place (~), replaces (-/+) and destroys (-). Attribute values are not shown.`,
		Example: `  captctl plan network-a
  captctl plan cluster/demo
  captctl plan cluster/demo/vpc -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			plan, err := operate.PlanOf(cmd.Context(), c, apply)
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, plan)
			}
			return printPlan(o.Out, plan, o.style(), time.Now())
		},
	})
	addOutput(cmd, &output)
	return cmd
}

// actionStyle is the symbol, colour and description of an action, as Terraform
// prints them.
type actionStyle struct {
	symbol      string
	colour      text.Colour
	description string
}

var actionStyles = map[terraform.Action]actionStyle{
	terraform.ActionCreate:  {"+", text.Green, "will be created"},
	terraform.ActionUpdate:  {"~", text.Yellow, "will be updated in-place"},
	terraform.ActionReplace: {"-/+", text.Red, "must be replaced"},
	terraform.ActionDelete:  {"-", text.Red, "will be destroyed"},
	terraform.ActionRead:    {"<=", text.Cyan, "will be read during apply"},
	terraform.ActionForget:  {".", text.Plain, "will be forgotten, but not destroyed"},
	terraform.ActionImport:  {"&", text.Cyan, "will be imported"},
	terraform.ActionMove:    {"→", text.Plain, "has moved"},
}

// changeReasons are the reasons that Terraform gives for a change.
var changeReasons = map[string]string{
	"tainted":                           "it is tainted",
	"requested":                         "it was requested",
	"replace_triggered_by":              "a resource in replace_triggered_by changes",
	"cannot_update":                     "it cannot be updated in place",
	"delete_because_no_resource_config": "it is no longer in the module",
	"delete_because_no_module":          "its module no longer exists",
	"delete_because_wrong_repetition":   "its count or for_each changed",
	"delete_because_count_index":        "its index is out of range",
	"delete_because_each_key":           "its key is no longer in for_each",
	"delete_because_enabled_false":      "it is no longer enabled",
	"read_because_config_unknown":       "its configuration is not known yet",
	"read_because_dependency_pending":   "a dependency changes",
	"delete_because_no_move_target":     "the target of its move does not exist",
	"read_because_check_nested":         "a check needs it",
}

// printPlan prints a plan in the format of Terraform.
func printPlan(w io.Writer, plan *operate.Plan, style text.Style, now time.Time) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Plan %s of %s, created %s ago by run %s%s\n\n", plan.ID, plan.Workspace, text.Age(now, plan.CreatedAt.Time), plan.Run, planState(plan))
	for _, change := range plan.Resources {
		action, known := actionStyles[change.Action]
		if !known {
			action = actionStyle{"?", text.Plain, string(change.Action)}
		}
		line := change.Address + " " + action.description
		if change.PreviousAddress != "" {
			line = fmt.Sprintf("%s (moved from %s)", line, change.PreviousAddress)
		}
		if change.Reason != "" {
			line += ", because " + cmp.Or(changeReasons[change.Reason], strings.ReplaceAll(change.Reason, "_", " "))
		}
		if slices.Contains(plan.Blocked, change.Address) {
			line += style.Paint(text.Red, " (protected)")
		}
		out.WriteString(style.Paint(action.colour, fmt.Sprintf("%3s", action.symbol)) + " " + line + "\n")
	}
	if plan.OmittedChanges > 0 {
		fmt.Fprintf(&out, "    and %d more\n", plan.OmittedChanges)
	}
	switch {
	case plan.OutputsOnly && len(plan.Resources) == 0:
		out.WriteString("Only outputs change.\n")
	case len(plan.Resources) == 0:
		out.WriteString("No changes.\n")
	}
	fmt.Fprintf(&out, "\n%s %d to add, %d to change, %d to destroy.\n", style.Paint(text.Bold, "Plan:"), plan.Add, plan.Change, plan.Destroy)
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}

// planState returns the state of a waiting plan, or an empty string.
func planState(plan *operate.Plan) string {
	switch {
	case !ptr.Deref(plan.Waiting, false):
		return ""
	case len(plan.Blocked) > 0:
		return ", blocked by protected resources"
	default:
		return ", waiting for approval"
	}
}

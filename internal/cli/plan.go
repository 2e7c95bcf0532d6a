package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
)

// nameHelp tells how workspaces are named.
const nameHelp = `NAME is the name of a WorkspaceTemplateApply, or cluster/NAME for the control
plane of a cluster, or cluster/NAME/vpc for its VPC.`

// workspace finds the workspace that an argument names.
func (o *Options) workspace(cmd *cobra.Command, name string) (client.WithWatch, *infrav1.WorkspaceTemplateApply, error) {
	c, namespace, err := o.reach()
	if err != nil {
		return nil, nil, err
	}
	apply, err := operate.Find(cmd.Context(), c, namespace, name)
	return c, apply, err
}

// workspaceCommand completes a command that works on one workspace.
func (o *Options) workspaceCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Long = strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + nameHelp)
	if cmd.Args == nil {
		cmd.Args = oneName("workspace")
	}
	cmd.ValidArgsFunction = o.complete(workspaceNames, false)
	return cmd
}

func newPlanCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "plan NAME",
		Short: "Show the latest plan of a workspace",
		Long: `Show the latest plan of a workspace: what would be, or was, created (+), updated
in place (~), replaced (-/+) and destroyed (-). Values are not shown.`,
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

// mark is how a plan shows an action, in the way that Terraform does.
type mark struct {
	sign   string
	colour text.Colour
	words  string
}

var marks = map[terraform.Action]mark{
	terraform.ActionCreate:  {"+", text.Green, "will be created"},
	terraform.ActionUpdate:  {"~", text.Yellow, "will be updated in-place"},
	terraform.ActionReplace: {"-/+", text.Red, "must be replaced"},
	terraform.ActionDelete:  {"-", text.Red, "will be destroyed"},
	terraform.ActionRead:    {"<=", text.Cyan, "will be read during apply"},
	terraform.ActionForget:  {".", text.Plain, "will be forgotten, but not destroyed"},
	terraform.ActionImport:  {"&", text.Cyan, "will be imported"},
	terraform.ActionMove:    {"→", text.Plain, "has moved"},
}

// reasons say why a plan does something, where it is not plain.
var reasons = map[string]string{
	"tainted":                           "it is tainted",
	"requested":                         "a person asked for it",
	"replace_triggered_by":              "what it is triggered by changes",
	"cannot_update":                     "it cannot be updated in place",
	"delete_because_no_resource_config": "it is not in the module any more",
	"delete_because_no_module":          "its module is not there any more",
	"delete_because_wrong_repetition":   "its count or for_each changed",
	"delete_because_count_index":        "its index is out of range",
	"delete_because_each_key":           "its key is not in for_each any more",
	"delete_because_enabled_false":      "it is not enabled any more",
	"read_because_config_unknown":       "its configuration is not known yet",
	"read_because_dependency_pending":   "what it depends on changes",
	"delete_because_no_move_target":     "what it moved to does not exist",
	"read_because_check_nested":         "a check needs it",
}

// printPlan prints a plan as Terraform people expect it.
func printPlan(w io.Writer, plan *operate.Plan, style text.Style, now time.Time) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Plan %s of %s, made %s ago by run %s%s\n\n", plan.ID, plan.Workspace, text.Age(now, plan.CreatedAt.Time), plan.Run, planState(plan))
	for _, change := range plan.Resources {
		m, known := marks[change.Action]
		if !known {
			m = mark{"?", text.Plain, string(change.Action)}
		}
		line := change.Address + " " + m.words
		if change.PreviousAddress != "" {
			line = fmt.Sprintf("%s (moved from %s)", line, change.PreviousAddress)
		}
		if change.Reason != "" {
			line += ", because " + cmp.Or(reasons[change.Reason], strings.ReplaceAll(change.Reason, "_", " "))
		}
		if slices.Contains(plan.Blocked, change.Address) {
			line += style.Paint(text.Red, " (protected)")
		}
		out.WriteString(style.Paint(m.colour, fmt.Sprintf("%3s", m.sign)) + " " + line + "\n")
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
		return fmt.Errorf("printing the plan: %w", err)
	}
	return nil
}

func planState(plan *operate.Plan) string {
	switch {
	case plan.Waiting == nil || !*plan.Waiting:
		return ""
	case len(plan.Blocked) > 0:
		return ", held back by protection"
	default:
		return ", waits for approval"
	}
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// drift is what is known of differences between state and reality.
type drift struct {
	Workspace string                   `json:"workspace"`
	Action    infrav1.DriftAction      `json:"action"`
	Interval  metav1.Duration          `json:"interval"`
	CheckedAt metav1.Time              `json:"checkedAt,omitzero"`
	Resources []infrav1.ResourceChange `json:"resources"`
}

func driftOf(apply *infrav1.WorkspaceTemplateApply, policy template.Policy) drift {
	d := drift{
		Workspace: apply.Name, Action: policy.DriftAction, Interval: metav1.Duration{Duration: policy.DriftInterval},
		Resources: []infrav1.ResourceChange{},
	}
	if status := apply.Status.Drift; status != nil {
		d.CheckedAt, d.Resources = status.CheckedAt, text.NonNil(status.Resources)
	}
	return d
}

func newDriftCommand(o *Options) *cobra.Command {
	var output text.Output
	var check bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "drift NAME",
		Short: "Show how reality differs from a workspace's state",
		Long: `Show how reality differs from a workspace's state, as it was seen last. With
--now it is looked at again; nothing is changed, unless drift.action is Repair.

It ends with 1 if something differs.`,
		Example: `  captctl drift cluster/demo
  captctl drift cluster/demo --now`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, apply, err := o.workspace(cmd, args[0])
			if err != nil {
				return err
			}
			if check {
				request, err := operate.CheckDrift(ctx, c, apply)
				if err != nil {
					return err
				}
				if apply, err = o.await(ctx, c, apply, func(a *infrav1.WorkspaceTemplateApply) bool {
					return a.Status.Drift != nil && a.Status.Drift.Request == request
				}); err != nil {
					return err
				}
				if last := apply.Status.History; len(last) > 0 && last[0].Operation == infrav1.RunOperation(terraform.OperationCheckDrift) && last[0].Outcome != "Succeeded" && last[0].Outcome != "NoChanges" {
					return fmt.Errorf("looking for drift: %s", last[0].Summary)
				}
			}
			policy, err := operate.Policy(ctx, c, apply)
			if err != nil {
				return err
			}
			d := driftOf(apply, policy)
			if output.Structured() {
				err = output.Print(o.Out, d)
			} else {
				err = printDrift(o.Out, d, o.style(), time.Now())
			}
			if err == nil && len(d.Resources) > 0 {
				err = &Exit{Code: 1}
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&check, "now", false, "look again now, and wait for the answer")
	addOutput(cmd, &output)
	return cmd
}

func printDrift(w io.Writer, d drift, style text.Style, now time.Time) error {
	var out strings.Builder
	switch {
	case d.CheckedAt.IsZero():
		fmt.Fprintf(&out, "Nobody has compared %s with reality yet: look now with --now\n", d.Workspace)
	case len(d.Resources) == 0:
		fmt.Fprintf(&out, "%s: no drift, seen %s ago\n", d.Workspace, text.Age(now, d.CheckedAt.Time))
	default:
		fmt.Fprintf(&out, "%s: %d resources differ from the state, seen %s ago\n\n", d.Workspace, len(d.Resources), text.Age(now, d.CheckedAt.Time))
		for _, change := range d.Resources {
			m := marks[terraform.Action(change.Action)]
			words := "was changed outside of Terraform"
			if terraform.Action(change.Action) == terraform.ActionDelete {
				words = "was deleted outside of Terraform"
			}
			out.WriteString(style.Paint(m.colour, fmt.Sprintf("%3s", m.sign)) + " " + change.Address + " " + words + "\n")
		}
		out.WriteByte('\n')
	}
	switch d.Action {
	case infrav1.DriftReport, infrav1.DriftRepair:
		fmt.Fprintf(&out, "Looked for every %s, action %s\n", d.Interval.Duration, d.Action)
	default:
		out.WriteString("Not looked for regularly: drift.action is Off\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("printing the drift: %w", err)
	}
	return nil
}

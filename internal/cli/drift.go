package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/changes"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

// exitDrift is the exit code if there is drift, as that of terraform plan -detailed-exitcode.
const exitDrift = 2

// drift is the structured output of captctl drift.
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
	var checkNow bool
	cmd := o.workspaceCommand(&cobra.Command{
		Use:   "drift NAME",
		Short: "Show the drift of a workspace",
		Long: `Show the resources of a workspace that were changed outside of Terraform, as of
the last drift check. With --now, the command runs a new check first. A check
changes nothing unless drift.action is Repair.

The exit code is 0 without drift, 2 if there is drift, and 1 if the command fails.`,
		Example: `  captctl drift cluster/demo
  captctl drift cluster/demo --now`,
	}, func(ctx context.Context, w *workspaceCall) error {
		if checkNow {
			last, err := w.waitUntil(ctx, nil, "", func(s *observed) bool { return s.apply.Status.Run == nil })
			if err != nil {
				return err
			}
			operation, err := operate.CheckDrift(ctx, w.client, last.apply)
			if err != nil {
				return err
			}
			if last, err = w.waitUntil(ctx, operation, w.starting(), (*observed).ended); err != nil {
				return w.stillRequested(err, checkRequested)
			}
			if last.operation.Status.Phase != infrav1.OperationSucceeded {
				return fmt.Errorf("checking drift: %s", message.OneLine(last.operation.Status.Message))
			}
			w.apply = last.apply
		}
		policy, err := operate.Policy(ctx, w.client, w.apply)
		if err != nil {
			return err
		}
		d := driftOf(w.apply, policy)
		if output.Structured() {
			err = output.Print(w.Out, d)
		} else {
			err = printDrift(w.Out, d, w.style(), time.Now())
		}
		if err == nil && len(d.Resources) > 0 {
			err = &Exit{Code: exitDrift}
		}
		return err
	})
	cmd.Flags().BoolVar(&checkNow, "now", false, "Run a drift check now and wait for its result.")
	addTimeout(cmd, &checkNow)
	addOutput(cmd, &output)
	return cmd
}

func printDrift(w io.Writer, d drift, style text.Style, now time.Time) error {
	var out strings.Builder
	switch {
	case d.CheckedAt.IsZero():
		fmt.Fprintf(&out, "%s: not checked for drift yet; run a check with --now\n", d.Workspace)
	case len(d.Resources) == 0:
		fmt.Fprintf(&out, "%s: no drift, checked %s ago\n", d.Workspace, text.Age(now, d.CheckedAt.Time))
	default:
		fmt.Fprintf(&out, "%s: drift in %s, checked %s ago\n\n", d.Workspace, text.Count(len(d.Resources), "resource"), text.Age(now, d.CheckedAt.Time))
		for _, change := range d.Resources {
			symbol, colour, _ := changes.Describe(terraform.Change{Action: terraform.Action(change.Action)})
			description := "was changed outside of Terraform"
			if terraform.Action(change.Action) == terraform.ActionDelete {
				description = "was deleted outside of Terraform"
			}
			out.WriteString(style.Paint(colour, fmt.Sprintf("%3s", symbol)) + " " + change.Address + " " + description + "\n")
		}
		out.WriteByte('\n')
	}
	switch d.Action {
	case infrav1.DriftReport, infrav1.DriftRepair:
		fmt.Fprintf(&out, "Checked every %s, action %s\n", d.Interval.Duration, d.Action)
	default:
		out.WriteString("Not checked regularly: drift.action is Off\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the drift: %w", err)
	}
	return nil
}

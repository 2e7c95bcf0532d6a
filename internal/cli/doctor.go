package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/doctor"
	"github.com/appthrust/capt/internal/client/text"
)

func newDoctorCommand(o *Options) *cobra.Command {
	output := text.Output("text")
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a management cluster and show how to fix problems",
		Long: `Check a management cluster: Cluster API and the CRDs of CAPT, the manager, webhooks
and their certificates, credentials, add-ons, runs, locks, deletions that take too
long, and leftovers of deleted objects. The command changes nothing.

The exit code is 1 if a check fails.`,
		Example: `  captctl doctor

  # Check one namespace only.
  captctl doctor -n team-a

  # List failed checks in a script.
  captctl doctor -o json | jq '.results[] | select(.status == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd.Context(), o, output) },
	}
	addFormat(cmd, &output, "text", "json")
	return cmd
}

func examine(ctx context.Context, o *Options, output text.Output) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	d, err := doctor.New(config, *o.Kube.Namespace)
	if err != nil {
		return err
	}
	results := d.Examine(ctx)
	for i := range results {
		// The commands have the namespace of their object.
		results[i].Fix = o.hintsIn("", results[i].Fix)
	}
	if output == "json" {
		err = text.PrintJSON(o.Out, struct {
			Healthy bool            `json:"healthy"`
			Results []doctor.Result `json:"results"`
		}{doctor.Healthy(results), results})
	} else {
		err = writeResults(o.Out, results)
	}
	if err != nil {
		return err
	}
	switch failures := doctor.Failures(results); failures {
	case 0:
		return nil
	case 1:
		return &Exit{Code: 1, Err: errors.New("1 problem found; see the fix below it")}
	default:
		return &Exit{Code: 1, Err: fmt.Errorf("%d problems found; see the fix below each", failures)}
	}
}

// statusLabels are the statuses in the text output.
var statusLabels = map[doctor.Status]string{doctor.OK: "ok", doctor.Warn: "warn", doctor.Fail: "FAIL"}

func writeResults(w io.Writer, results []doctor.Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range results {
		line := r.Message
		if r.Object != "" {
			line = r.Object + ": " + line
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", statusLabels[r.Status], r.Check, line)
		if r.Fix != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", r.Fix)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

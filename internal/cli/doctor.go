package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/doctor"
)

// doctorOutputs are the ways in which results can be written.
var doctorOutputs = []string{"text", "json"}

func newDoctorCommand(o *Options) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a management cluster and say how to mend what is wrong",
		Long: "Examines a management cluster: Cluster API and CAPT's CRDs, the manager, webhooks and\n" +
			"their certificates, credentials, add-ons, runs, locks, deletions that do not end and\n" +
			"what is left of objects that are gone. It changes nothing.\n\n" +
			"It ends with 0 if nothing fails, and with 1 if something does.",
		Example: "  captctl doctor\n\n" +
			"  # one namespace only\n" +
			"  captctl doctor -n team-a\n\n" +
			"  # for programs\n" +
			"  captctl doctor -o json | jq '.results[] | select(.status == \"fail\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.examine(cmd.Context(), output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "how to write results: "+strings.Join(doctorOutputs, ", "))
	completeWords(c, "output", doctorOutputs)
	return c
}

func (o *Options) examine(ctx context.Context, output string) error {
	if !slices.Contains(doctorOutputs, output) {
		return usage("there is no output %q: write one of %s", output, strings.Join(doctorOutputs, ", "))
	}
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("finding the management cluster: %w", err)
	}
	d, err := doctor.New(config, *o.Kube.Namespace)
	if err != nil {
		return err
	}
	results := d.Examine(ctx)
	if output == "json" {
		err = writeReport(o.Out, results)
	} else {
		err = writeResults(o.Out, results)
	}
	if err != nil {
		return err
	}
	if doctor.Healthy(results) {
		return nil
	}
	failed := 0
	for _, r := range results {
		if r.Status == doctor.Fail {
			failed++
		}
	}
	if failed == 1 {
		return &Exit{Code: 1, Err: errors.New("1 thing fails; how to mend it stands beside it")}
	}
	return &Exit{Code: 1, Err: fmt.Errorf("%d things fail; how to mend each stands beside it", failed)}
}

func writeReport(w io.Writer, results []doctor.Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Healthy bool            `json:"healthy"`
		Results []doctor.Result `json:"results"`
	}{doctor.Healthy(results), results})
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// verdicts are how people see a status.
var verdicts = map[doctor.Status]string{doctor.OK: "ok", doctor.Warn: "warn", doctor.Fail: "FAIL"}

func writeResults(w io.Writer, results []doctor.Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range results {
		message := r.Message
		if r.Object != "" {
			message = r.Object + ": " + message
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", verdicts[r.Status], r.Check, message)
		if r.Mend != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", r.Mend)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/cli/validate"
)

type validateFlags struct {
	output      string
	strict      bool
	charts      []string
	fetchCharts bool
}

func newValidateCommand(o *Options) *cobra.Command {
	var flags validateFlags
	c := &cobra.Command{
		Use:   "validate FILE|DIRECTORY|-...",
		Short: "Check manifests without a cluster",
		Long: "Checks manifests of CAPT and Cluster API without a cluster: what the API server and\n" +
			"CAPT's webhooks would refuse, references between the given objects, Terraform\n" +
			"modules and the values they are given, placeholders, and what add-ons put into\n" +
			"charts.\n\n" +
			"It ends with 0 if nothing is wrong, 1 if something is, and 2 if the manifests could\n" +
			"not be read. What cannot be known without a cluster is a warning.",
		Example: "  # everything of a directory, with the templates it uses\n" +
			"  captctl validate clusters/ templates/\n\n" +
			"  # in a workflow on GitHub\n" +
			"  captctl validate -o github --strict clusters/\n\n" +
			"  # add-ons against a chart on disk, or wherever they come from\n" +
			"  captctl validate --chart ./karpenter-1.14.1.tgz addon.yaml\n" +
			"  captctl validate --fetch-charts addon.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return o.validate(cmd.Context(), args, &flags) },
	}
	c.Flags().StringVarP(&flags.output, "output", "o", "text", "how to write findings: "+strings.Join(validate.Formats, ", "))
	c.Flags().BoolVar(&flags.strict, "strict", false, "treat references to objects that are not given as errors")
	c.Flags().StringArrayVar(&flags.charts, "chart", nil, "directory or .tgz of a chart that add-ons install; can be given several times")
	c.Flags().BoolVar(&flags.fetchCharts, "fetch-charts", false, "fetch the charts that add-ons install")
	completeWords(c, "output", validate.Formats)
	return c
}

// completeWords has the shell complete a flag from a list.
func completeWords(c *cobra.Command, flag string, words []string) {
	// The only error is that of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func usage(format string, args ...any) error { return &Exit{Code: 2, Err: fmt.Errorf(format, args...)} }

func (o *Options) validate(ctx context.Context, paths []string, flags *validateFlags) error {
	switch {
	case len(paths) == 0:
		return usage("give files or directories to check, or - for standard input")
	case !slices.Contains(validate.Formats, flags.output):
		return usage("there is no output %q: write one of %s", flags.output, strings.Join(validate.Formats, ", "))
	}
	matrix, err := versions.Default()
	if err != nil {
		return err
	}
	options := validate.Options{Strict: flags.strict, Namespace: *o.Kube.Namespace, Given: map[string]*chart.Chart{}, Versions: matrix}
	for _, path := range flags.charts {
		c, err := chart.Load(path)
		if err != nil {
			return &Exit{Code: 2, Err: err}
		}
		options.Given[c.Name] = c
	}
	if flags.fetchCharts {
		options.Charts = &chart.Cache{}
	}
	objects, findings, err := validate.Read(paths, o.In)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	found, err := validate.Check(ctx, objects, options)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	findings = append(findings, found...)
	if err := validate.Write(o.Out, flags.output, findings); err != nil {
		return err
	}
	return o.sumUp(flags.output, len(objects), findings)
}

// sumUp ends with the sentence for people and the exit code for programs.
func (o *Options) sumUp(output string, objects int, findings []validate.Finding) error {
	failures := 0
	for _, f := range findings {
		if f.Severity == validate.Error {
			failures++
		}
	}
	text := fmt.Sprintf("%d objects: %d errors, %d warnings", objects, failures, len(findings)-failures)
	if failures > 0 {
		return &Exit{Code: 1, Err: errors.New(text)}
	}
	if output == "text" {
		fmt.Fprintln(o.Out, text)
	}
	return nil
}

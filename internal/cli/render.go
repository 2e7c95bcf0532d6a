package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/cli/validate"
)

type renderFlags struct {
	output, cluster, outputs string
	runs                     bool
}

// renderOutputs are the ways in which renderings can be written.
var renderOutputs = []string{"yaml", "json"}

func newRenderCommand(o *Options) *cobra.Command {
	var flags renderFlags
	c := &cobra.Command{
		Use:   "render FILE|DIRECTORY|-...",
		Short: "Show what CAPT would make of manifests, without a cluster",
		Long: "Shows what CAPT would make of manifests, without a cluster: for a Cluster the\n" +
			"WorkspaceTemplateApplies behind it (and what Cluster API makes of its topology), for\n" +
			"a WorkspaceTemplateApply what Terraform is given, for a CAPTAddon what reaches one\n" +
			"cluster. Templates and classes have to be among the manifests. What is known only\n" +
			"once something is applied stands in parentheses, and so does what comes out of\n" +
			"Secrets.",
		Example: "  captctl render cluster.yaml templates/\n\n" +
			"  # with what Terraform is given\n" +
			"  captctl render --runs cluster.yaml templates/\n\n" +
			"  # an add-on for one cluster\n" +
			"  tofu output -json > outputs.json\n" +
			"  captctl render addon.yaml --cluster demo --outputs outputs.json",
		RunE: func(cmd *cobra.Command, args []string) error { return o.render(cmd.Context(), args, &flags) },
	}
	c.Flags().StringVarP(&flags.output, "output", "o", "yaml", "how to write it: "+strings.Join(renderOutputs, ", "))
	c.Flags().BoolVar(&flags.runs, "runs", false, "show what Terraform is given for rendered workspaces too")
	c.Flags().StringVar(&flags.cluster, "cluster", "", "name of the cluster that add-ons are rendered for")
	c.Flags().StringVar(&flags.outputs, "outputs", "", "file with that cluster's Terraform outputs: a connection Secret, or what terraform output -json prints")
	completeWords(c, "output", renderOutputs)
	return c
}

func (o *Options) render(ctx context.Context, paths []string, flags *renderFlags) error {
	switch {
	case len(paths) == 0:
		return usage("give files or directories to render, or - for standard input")
	case !slices.Contains(renderOutputs, flags.output):
		return usage("there is no output %q: write one of %s", flags.output, strings.Join(renderOutputs, ", "))
	}
	options := render.Options{Runs: flags.runs, Cluster: flags.cluster}
	if flags.outputs != "" {
		text, err := os.ReadFile(flags.outputs)
		if err != nil {
			return usage("reading the outputs: %w", err)
		}
		if options.Outputs, err = render.Outputs(text); err != nil {
			return &Exit{Code: 2, Err: err}
		}
	}
	read, findings, err := validate.Read(paths, o.In)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	objects, found, err := validate.Decode(ctx, read, validate.Options{Namespace: *o.Kube.Namespace})
	if err != nil {
		return err
	}
	if findings = append(findings, found...); validate.Failed(findings) {
		findings = slices.DeleteFunc(findings, func(f validate.Finding) bool { return f.Severity != validate.Error })
		if err := validate.Write(o.Err, "text", findings); err != nil {
			return err
		}
		return &Exit{Code: 1, Err: errors.New("the manifests would be refused")}
	}
	rendering, err := render.Render(ctx, objects, options)
	if err != nil {
		return err
	}
	for _, note := range rendering.Notes {
		fmt.Fprintln(o.Err, "note:", note)
	}
	write := rendering.WriteYAML
	if flags.output == "json" {
		write = rendering.WriteJSON
	}
	if err := write(o.Out); err != nil {
		return err
	}
	for _, p := range rendering.Problems {
		fmt.Fprintf(o.Err, "error: %s %s: %s\n", p.Object.GetObjectKind().GroupVersionKind().Kind, p.Object.GetName(), p.Message)
	}
	if len(rendering.Problems) > 0 {
		return &Exit{Code: 1, Err: errors.New("not everything could be rendered")}
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/client/text"
)

// renderCall is a call of captctl render.
type renderCall struct {
	*Options
	output           text.Output
	cluster, outputs string
	runs             bool
}

func newRenderCommand(o *Options) *cobra.Command {
	r := &renderCall{Options: o, output: "yaml"}
	c := &cobra.Command{
		Use:   "render FILE|DIRECTORY|-...",
		Short: "Show the objects that CAPT would create, without a cluster",
		Long: `Show the objects that CAPT would create from manifests, without a cluster:

  Cluster                  the objects of its topology and its WorkspaceTemplateApplies
  WorkspaceTemplateApply   the input of Terraform
  CAPTAddon                the manifests for one cluster (--cluster, --outputs)

The manifests must include the templates and classes that they use. Values that are
known only after an apply, and values from Secrets, are shown in parentheses.`,
		Example: `  captctl render cluster.yaml templates/

  # Include the input of Terraform.
  captctl render --runs cluster.yaml templates/

  # Render an add-on for one cluster.
  tofu output -json > outputs.json
  captctl render addon.yaml --cluster demo --outputs outputs.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	addFormat(c, &r.output, "yaml", "json")
	c.Flags().BoolVar(&r.runs, "runs", false, "Include the input of Terraform for the rendered workspaces.")
	c.Flags().StringVar(&r.cluster, "cluster", "", "Name of the cluster to render add-ons for.")
	c.Flags().StringVar(&r.outputs, "outputs", "", "File with the Terraform outputs of that cluster: a connection Secret, or the output of terraform output -json.")
	return c
}

func (r *renderCall) run(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return usageError("expected files or directories to render, or - for stdin")
	}
	options := render.Options{Runs: r.runs, Cluster: r.cluster}
	if r.outputs != "" {
		content, err := os.ReadFile(r.outputs)
		if err != nil {
			return usageError("reading the outputs: %w", err)
		}
		if options.Outputs, err = render.Outputs(content); err != nil {
			return &Exit{Code: 2, Err: err}
		}
	}
	read, findings, err := validate.Read(paths, r.In)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	objects, found, err := validate.Decode(ctx, read, validate.Options{Namespace: *r.Kube.Namespace})
	if err != nil {
		return err
	}
	if findings = append(findings, found...); validate.Failed(findings) {
		findings = slices.DeleteFunc(findings, func(f validate.Finding) bool { return f.Severity != validate.Error })
		if err := validate.Write(r.Err, "text", findings); err != nil {
			return err
		}
		return &Exit{Code: 1, Err: errors.New("the manifests are invalid")}
	}
	rendered, err := render.Render(ctx, objects, options)
	if err != nil {
		return err
	}
	for _, note := range rendered.Notes {
		fmt.Fprintln(r.Err, "note:", note)
	}
	write := rendered.WriteYAML
	if r.output == "json" {
		write = rendered.WriteJSON
	}
	if err := write(text.Raw(r.Out)); err != nil {
		return err
	}
	for _, p := range rendered.Problems {
		fmt.Fprintf(r.Err, "error: %s %s: %s\n", p.Object.GetObjectKind().GroupVersionKind().Kind, p.Object.GetName(), p.Message)
	}
	if len(rendered.Problems) > 0 {
		return &Exit{Code: 1, Err: errors.New("some objects could not be rendered")}
	}
	return nil
}

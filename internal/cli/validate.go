package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/cli/validate"
	"github.com/appthrust/capt/internal/client/text"
)

// validateCall is a call of captctl validate.
type validateCall struct {
	*Options
	output      text.Output
	strict      bool
	charts      []string
	modules     []string
	fetchCharts bool
	// fetchModules is set if remote modules are fetched, with the tool binary.
	fetchModules bool
	binary       string
}

func newValidateCommand(o *Options) *cobra.Command {
	v := &validateCall{Options: o, output: "text"}
	c := &cobra.Command{
		Use:   "validate FILE|DIRECTORY|-...",
		Short: "Validate manifests without a cluster",
		Long: `Validate manifests of CAPT and Cluster API without a cluster: the rules of the API
server and of CAPT's webhooks, references between objects, Terraform modules and
their variables, placeholders, and the chart values that add-ons set.

The exit code is 0 if there are no errors, 1 if there are, and 2 if the manifests
cannot be read. What only a cluster knows, such as objects that are not among the
manifests, is a warning.`,
		Example: `  # Validate a directory with the templates that it uses.
  captctl validate clusters/ templates/

  # Annotate a pull request on GitHub.
  captctl validate -o github --strict clusters/

  # Validate the values of add-ons with a local chart, or with the charts they use.
  captctl validate --chart ./karpenter-1.14.1.tgz addon.yaml
  captctl validate --fetch-charts addon.yaml

  # Check the variables of modules that runs fetch, or of one with a copy of it.
  captctl validate --fetch-modules clusters/
  captctl validate --module 'git::https://example.com/eks.git?ref=v1=./eks' clusters/`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	addFormat(c, &v.output, validate.Formats...)
	c.Flags().BoolVar(&v.strict, "strict", false, "Report references to objects that are not among the manifests as errors.")
	c.Flags().StringArrayVar(&v.modules, "module", nil, "ADDRESS=DIRECTORY: a copy of the remote module with this address, or of the root module in this Flux source, such as GitRepository/infrastructure, to check its variables. Can be repeated.")
	c.Flags().BoolVar(&v.fetchModules, "fetch-modules", false, "Fetch the remote modules of templates with your own credentials, to check their variables.")
	c.Flags().StringVar(&v.binary, "terraform-binary", "", "With --fetch-modules: path of the OpenTofu or Terraform that fetches them. "+toolDefault)
	c.Flags().StringArrayVar(&v.charts, "chart", nil, "Directory or .tgz file of a chart that add-ons use. Can be repeated.")
	c.Flags().BoolVar(&v.fetchCharts, "fetch-charts", false, "Download the charts that add-ons use.")
	return c
}

// readModules reads the modules of the flag --module. An address can contain "=".
func readModules(given []string) (map[string]validate.LocalModule, error) {
	modules := map[string]validate.LocalModule{}
	for _, each := range given {
		at := strings.LastIndex(each, "=")
		if at <= 0 || at == len(each)-1 {
			return nil, usageError("--module %s: expected ADDRESS=DIRECTORY", each)
		}
		module, err := validate.ReadModule(each[at+1:])
		if err != nil {
			return nil, &Exit{Code: 2, Err: err}
		}
		modules[each[:at]] = module
	}
	return modules, nil
}

func (v *validateCall) run(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return usageError("expected files or directories to validate, or - for stdin")
	}
	matrix, err := versions.Default()
	if err != nil {
		return err
	}
	options := validate.Options{Strict: v.strict, Namespace: *v.Kube.Namespace, Given: map[string]*chart.Chart{}, Versions: matrix, Now: time.Now()}
	if options.Modules, err = readModules(v.modules); err != nil {
		return err
	}
	if v.fetchModules {
		options.Fetch = func(ctx context.Context, parameters *infrav1.ModuleParameters) (validate.LocalModule, error) {
			return v.fetchModule(ctx, parameters, v.binary)
		}
	}
	for _, path := range v.charts {
		c, err := chart.Load(path)
		if err != nil {
			return &Exit{Code: 2, Err: err}
		}
		options.Given[c.Name] = c
	}
	if v.fetchCharts {
		options.Charts = chart.NewCache(chart.Fetcher{}, clock.RealClock{})
	}
	objects, findings, err := validate.Read(paths, v.In)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	found, err := validate.Check(ctx, objects, options)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	findings = append(findings, found...)
	if err := validate.Write(v.Out, v.output, findings); err != nil {
		return err
	}
	return v.summarize(len(objects), findings)
}

// summarize prints the number of findings in the text format, and returns an error
// if there are errors among them.
func (v *validateCall) summarize(objects int, findings []validate.Finding) error {
	failures := 0
	for _, f := range findings {
		if f.Severity == validate.Error {
			failures++
		}
	}
	summary := fmt.Sprintf("%s: %s, %s", text.Count(objects, "object"), text.Count(failures, "error"), text.Count(len(findings)-failures, "warning"))
	if failures > 0 {
		return &Exit{Code: 1, Err: errors.New(summary)}
	}
	if v.output == "text" {
		fmt.Fprintln(v.Out, summary)
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cli/generate"
	"github.com/appthrust/capt/internal/cli/render"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform/inspect"
	"github.com/appthrust/capt/internal/terraform/speculate"
)

// moduleFlags select a Terraform module, and what is generated for it.
type moduleFlags struct {
	*Options
	from, binary string
	options      generate.Options
}

// addBinary adds the flag for the tool that fetches the module.
func (f *moduleFlags) addBinary(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.binary, "terraform-binary", "", "Path of the OpenTofu or Terraform that fetches the module. "+toolDefault)
}

func newGenerateTemplateCommand(o *Options) *cobra.Command {
	flags := &moduleFlags{Options: o}
	c := &cobra.Command{
		Use:   "template [NAME]",
		Short: "Generate a WorkspaceTemplate and a ClusterClass for a Terraform module",
		Long: `Generate a WorkspaceTemplate for a Terraform module, and a ClusterClass if the module
creates a control plane. The module is a directory, which becomes an inline module, or an
address in Git or a registry, which is fetched with OpenTofu or Terraform and your own
credentials.

Variables and outputs with common names, such as cluster_version, endpoint and
kube_admin_config_raw, are connected to those that CAPT knows. The other variables become
variables of the class with the types of the module. Whatever is missing is printed to
stderr.`,
		Example: `  # A directory.
  captctl generate template --from ./cluster > template.yaml

  # A module of the registry, with two of its optional variables.
  captctl generate template eks --from terraform-aws-modules/eks/aws --module-version 21.0.0 \
    --variables subnet_ids,vpc_id --provider-config aws > template.yaml

  # A directory of a Git repository.
  captctl generate template --from 'git::https://git.example.com/platform/modules.git//cluster?ref=v3.1.0' > template.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneName("template")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.generate(cmd.Context(), args) },
	}
	c.Flags().StringVar(&flags.from, "from", "", "The module: a directory, or an address as in a module block of Terraform.")
	c.Flags().StringVar(&flags.options.Parameters.Version, "module-version", "", "Version constraint of a module in a registry.")
	c.Flags().StringSliceVar(&flags.options.Variables, "variables", nil, "The optional variables that the class gets, separated by commas. The default are all. Required variables are always there.")
	c.Flags().StringVar(&flags.options.ProviderConfig, "provider-config", "", "Name of the WorkspaceProviderConfig with credentials and providers.")
	c.Flags().StringVar(&flags.options.Network, "network", "", "Name of the WorkspaceTemplate that creates the network of the clusters.")
	flags.addBinary(c)
	// The only error is a flag that does not exist.
	_ = c.MarkFlagRequired("from")
	return c
}

func (f *moduleFlags) generate(ctx context.Context, args []string) error {
	options := f.options
	module, err := f.read(ctx, &options.Parameters)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if errs := module.Diagnostics.Errors(); len(errs) > 0 {
		return fmt.Errorf("the module is invalid: %s", errs.Short())
	}
	options.Name = generate.NameOf(f.from)
	if options.Parameters.Source == infrav1.ModuleSourceInline {
		if dir, err := filepath.Abs(f.from); err == nil {
			options.Name = generate.NameOf(filepath.Base(dir))
		}
	}
	if len(args) == 1 {
		options.Name = args[0]
	}
	if len(validation.IsDNS1123Label(options.Name)) > 0 {
		return usageError("%q is not a valid name: use at most 63 lower-case letters, digits and dashes, such as %s", options.Name, generate.NameOf(options.Name))
	}
	result, err := generate.New(module, options)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	rendering := render.Rendering{Objects: result.Objects}
	if err := rendering.WriteYAML(text.Raw(f.Out)); err != nil {
		return err
	}
	if len(result.Missing) > 0 {
		fmt.Fprintf(f.Err, "Missing:\n- %s\n", strings.Join(result.Missing, "\n- "))
	}
	return nil
}

// read reads the module of the flags, and sets the parameters to its source.
func (f *moduleFlags) read(ctx context.Context, parameters *infrav1.ModuleParameters) (*inspect.Module, error) {
	info, err := os.Stat(f.from)
	if err == nil && info.IsDir() {
		if parameters.Version != "" {
			return nil, fmt.Errorf("--module-version needs the address of a registry: %s is a directory", f.from)
		}
		return f.inline(parameters)
	}
	if strings.HasPrefix(f.from, "./") || strings.HasPrefix(f.from, "../") || strings.HasPrefix(f.from, "/") {
		return nil, fmt.Errorf("directory %s does not exist: pass the directory or the address of a module", f.from)
	}
	parameters.Source, parameters.Module = infrav1.ModuleSourceRemote, f.from
	files, err := f.fetchModule(ctx, parameters, f.binary)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", f.from, err)
	}
	return files.Inspect(), nil
}

func (f *moduleFlags) inline(parameters *infrav1.ModuleParameters) (*inspect.Module, error) {
	_, root, err := speculate.Locate(f.from)
	if err != nil {
		return nil, err
	}
	if root != "." {
		return nil, fmt.Errorf("the module in %s uses modules outside of this directory, which an inline module cannot: pass its address in Git", f.from)
	}
	inline, left, err := generate.Inline(f.from)
	if err != nil {
		return nil, err
	}
	*parameters = inline
	if len(left) > 0 {
		fmt.Fprintf(f.Err, "Left out, because they are values or no text: %s\n", strings.Join(left, ", "))
	}
	return inspect.Dir(f.from)
}

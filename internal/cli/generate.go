package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/cli/flavor"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// generateCall is a call of captctl generate cluster.
type generateCall struct {
	*Options
	flavor, from, kubernetesVersion string
	set                             []string
	listVariables, listFlavors      bool
	output                          text.Output
}

func newGenerateCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{Use: "generate", Short: "Generate manifests"}, newGenerateClusterCommand(o), newGenerateTemplateCommand(o))
}

func newGenerateClusterCommand(o *Options) *cobra.Command {
	g := &generateCall{Options: o}
	c := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Generate the manifests of a cluster",
		Long: `Generate the manifests of a cluster from one of CAPT's flavors, or from your own
clusterctl template. The value of a variable comes from --set, else from the
environment, else from the template's default. The namespace is that of -n, else of the
environment variable NAMESPACE, else of the kubeconfig's context, if there is a kubeconfig.`,
		Example: `  captctl generate cluster demo --flavor local | kubectl apply -f -

  # Show the variables of a flavor.
  captctl generate cluster --flavor eks --list-variables

  captctl generate cluster prod --set AWS_REGION=eu-west-1 \
    --set ENDPOINT_PUBLIC_CIDRS=203.0.113.0/24,198.51.100.7/32 > prod.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneName("cluster")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return g.run(args) },
	}
	c.Flags().StringVarP(&g.flavor, "flavor", "f", flavor.Default, "Flavor of the cluster. --list-flavors lists them.")
	c.Flags().StringVar(&g.from, "from", "", "Your own template: a file, or - for stdin.")
	c.Flags().StringVar(&g.kubernetesVersion, "kubernetes-version", "", "Kubernetes version, such as "+kubeversion.EKSDefault+".")
	c.Flags().StringArrayVar(&g.set, "set", nil, "Value of a variable as NAME=VALUE. Can be repeated.")
	c.Flags().BoolVar(&g.listVariables, "list-variables", false, "List the variables of the template.")
	c.Flags().BoolVar(&g.listFlavors, "list-flavors", false, "List the flavors.")
	addOutput(c, &g.output)
	if names, err := flavor.Names(); err == nil {
		completeWords(c, "flavor", names)
	}
	return c
}

func (g *generateCall) run(args []string) error {
	if g.listFlavors {
		names, err := flavor.Names()
		if err != nil {
			return err
		}
		if g.output.Structured() {
			return g.output.Print(g.Out, names)
		}
		fmt.Fprintln(g.Out, strings.Join(names, "\n"))
		return nil
	}
	template, err := g.template()
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if g.listVariables {
		return g.printVariables(template)
	}
	if len(args) != 1 {
		return usageError("expected the name of the cluster, or --list-variables")
	}
	given, err := g.values(args[0])
	if err != nil {
		return err
	}
	if err := checkValues(template, given); err != nil {
		return err
	}
	filled, err := flavor.Fill(template, given, os.LookupEnv)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if _, err := text.Raw(g.Out).Write(filled); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	return nil
}

// values returns the values of variables that the flags, the arguments and the
// kubeconfig have.
func (g *generateCall) values(name string) (map[string]string, error) {
	given := map[string]string{flavor.ClusterName: name}
	if g.kubernetesVersion != "" {
		given[flavor.KubernetesVersion] = g.kubernetesVersion
	}
	set, err := assignments(g.set)
	if err != nil {
		return nil, err
	}
	namespace, _, err := g.namespaceOf(set)
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		given[flavor.Namespace] = namespace
	}
	maps.Copy(given, set)
	return given, nil
}

// namespaceOf returns the namespace of the manifests, if there is one, and where it is from.
func (g *generateCall) namespaceOf(set map[string]string) (namespace, source string, err error) {
	switch {
	case set[flavor.Namespace] != "":
		return set[flavor.Namespace], "--set", nil
	case *g.Kube.Namespace != "":
		return *g.Kube.Namespace, "-n", nil
	case os.Getenv(flavor.Namespace) != "":
		return os.Getenv(flavor.Namespace), "the environment", nil
	}
	namespace, err = g.contextNamespace()
	return namespace, "the context", err
}

// contextNamespace returns the namespace of the kubeconfig's context. It is empty if no context
// is selected, because manifests can be generated without a kubeconfig.
func (g *generateCall) contextNamespace() (string, error) {
	config, err := g.Kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", usageError("loading the kubeconfig: %w", err)
	}
	name := cmp.Or(*g.Kube.Context, config.CurrentContext)
	selected, found := config.Contexts[name]
	switch {
	case found:
		return cmp.Or(selected.Namespace, metav1.NamespaceDefault), nil
	case name != "":
		return "", &Exit{Code: 2, Err: unknownContext(name)}
	default:
		return "", nil
	}
}

// checkValues returns an error for values that no cluster can have, also if they are from the
// environment.
func checkValues(template []byte, given map[string]string) error {
	variables, err := flavor.Variables(template)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	values := maps.Clone(given)
	for _, v := range variables {
		if text := os.Getenv(v.Name); text != "" && given[v.Name] == "" {
			values[v.Name] = text
		}
	}
	const rule = "use at most 63 lower-case letters, digits and dashes"
	if text := values[flavor.ClusterName]; len(validation.IsDNS1123Label(text)) > 0 {
		return usageError("%q is not a valid cluster name: %s, such as demo", text, rule)
	}
	if text, found := values[flavor.Namespace]; found && len(validation.IsDNS1123Label(text)) > 0 {
		return usageError("%q is not a valid namespace: %s, such as team-a", text, rule)
	}
	if text, found := values[flavor.KubernetesVersion]; found {
		if _, err := kubeversion.Parse(text); err != nil {
			return usageError("%q is not a Kubernetes version: write for example %s", text, kubeversion.EKSDefault)
		}
	}
	return nil
}

// assignments parses the values of --set. One flag may set several variables, as
// in A=1,B=2. A part without = belongs to the value before it, so that a value may
// be a list.
func assignments(flags []string) (map[string]string, error) {
	set := map[string]string{}
	for _, text := range flags {
		last := ""
		for part := range strings.SplitSeq(text, ",") {
			name, value, isAssignment := strings.Cut(part, "=")
			switch {
			case isAssignment && name != "":
				last, set[name] = name, value
			case last != "":
				set[last] += "," + part
			default:
				return nil, usageError("invalid --set %q: expected NAME=VALUE", text)
			}
		}
	}
	return set, nil
}

// template returns the template that the flags select.
func (g *generateCall) template() ([]byte, error) {
	if g.from == "" {
		return flavor.Template(g.flavor)
	}
	return g.readFile(g.from)
}

func (g *generateCall) printVariables(template []byte) error {
	variables, err := flavor.Variables(template)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	set, err := assignments(g.set)
	if err != nil {
		return err
	}
	namespace, source, err := g.namespaceOf(set)
	if err != nil {
		return err
	}
	table := text.NewTable("VARIABLE", "DEFAULT")
	for _, v := range variables {
		value := "(required)"
		if v.Default != nil {
			value = *v.Default
		}
		if v.Name == flavor.Namespace && namespace != "" {
			value = namespace + " (of " + source + ")"
		}
		table.Add(text.Cells(v.Name, value)...)
	}
	return table.Print(g.Out, text.Style{})
}

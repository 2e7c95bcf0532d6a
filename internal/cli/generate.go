package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/cli/flavor"
)

type generateFlags struct {
	flavor, from, kubernetesVersion string
	set                             map[string]string
	listVariables, listFlavors      bool
}

func newGenerateCommand(o *Options) *cobra.Command {
	c := &cobra.Command{Use: "generate", Short: "Write manifests from templates"}
	c.AddCommand(newGenerateClusterCommand(o))
	return c
}

func newGenerateClusterCommand(o *Options) *cobra.Command {
	var flags generateFlags
	c := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Write the manifests of a cluster",
		Long: "Writes the manifests of a cluster from one of CAPT's flavors, or from a template of\n" +
			"your own in clusterctl's form. Variables are taken from --set, then from the\n" +
			"environment, then from the template's defaults.",
		Example: "  captctl generate cluster demo --flavor local | kubectl apply -f -\n\n" +
			"  # what a flavor asks for\n" +
			"  captctl generate cluster --flavor eks --list-variables\n\n" +
			"  captctl generate cluster prod --set AWS_REGION=eu-west-1 --kubernetes-version v1.33.0 > prod.yaml",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.generateCluster(args, &flags) },
	}
	c.Flags().StringVarP(&flags.flavor, "flavor", "f", flavor.Default, "flavor of the cluster; --list-flavors shows them")
	c.Flags().StringVar(&flags.from, "from", "", "template of your own: a file, or - for standard input")
	c.Flags().StringVar(&flags.kubernetesVersion, "kubernetes-version", "", "version of Kubernetes, such as v1.33.0")
	c.Flags().StringToStringVar(&flags.set, "set", nil, "value of a variable, as NAME=VALUE; can be given several times")
	c.Flags().BoolVar(&flags.listVariables, "list-variables", false, "show the template's variables")
	c.Flags().BoolVar(&flags.listFlavors, "list-flavors", false, "show the flavors")
	if names, err := flavor.Names(); err == nil {
		completeWords(c, "flavor", names)
	}
	return c
}

func (o *Options) generateCluster(args []string, flags *generateFlags) error {
	if flags.listFlavors {
		names, err := flavor.Names()
		if err == nil {
			fmt.Fprintln(o.Out, strings.Join(names, "\n"))
		}
		return err
	}
	template, err := o.template(flags)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if flags.listVariables {
		return o.listVariables(template)
	}
	if len(args) != 1 {
		return usage("give the name of the cluster, or --list-variables")
	}
	if problems := validation.IsDNS1123Subdomain(args[0]); len(problems) > 0 {
		return usage("%q is no name of a cluster: write lower-case letters, digits and '-', for example demo", args[0])
	}
	given := map[string]string{flavor.ClusterName: args[0]}
	if flags.kubernetesVersion != "" {
		given[flavor.KubernetesVersion] = flags.kubernetesVersion
	}
	if namespace := *o.Kube.Namespace; namespace != "" {
		given[flavor.Namespace] = namespace
	}
	maps.Copy(given, flags.set)
	filled, err := flavor.Fill(template, given, os.LookupEnv)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	if _, err := o.Out.Write(filled); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	return nil
}

// template reads the template that flags ask for.
func (o *Options) template(flags *generateFlags) ([]byte, error) {
	switch flags.from {
	case "":
		return flavor.Template(flags.flavor)
	case "-":
		text, err := io.ReadAll(o.In)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return text, nil
	default:
		text, err := os.ReadFile(flags.from)
		if err != nil {
			return nil, fmt.Errorf("reading the template: %w", err)
		}
		return text, nil
	}
}

func (o *Options) listVariables(template []byte) error {
	variables, err := flavor.Variables(template)
	if err != nil {
		return &Exit{Code: 2, Err: err}
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VARIABLE\tDEFAULT")
	for _, v := range variables {
		standard := "(required)"
		if v.Default != nil {
			standard = *v.Default
		}
		fmt.Fprintf(table, "%s\t%s\n", v.Name, standard)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the variables: %w", err)
	}
	return nil
}

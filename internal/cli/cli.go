// Package cli holds the commands of captctl, a file each. Commands read flags
// and print; what they know comes from the packages below.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Options is what every command shares.
type Options struct {
	Streams
	// Kube are the flags that lead to a cluster, as kubectl has them.
	Kube *genericclioptions.ConfigFlags
}

// New returns captctl.
func New(streams Streams) *cobra.Command {
	cobra.EnableCommandSorting = false
	o := &Options{Streams: streams, Kube: genericclioptions.NewConfigFlags(true)}
	root := group(&cobra.Command{
		Use:   "captctl",
		Short: "Run and look at clusters that Terraform modules make",
		Long: `Run and look at clusters that Terraform modules make.

captctl talks to a management cluster with Cluster API and CAPT, as kubectl
does: by --kubeconfig, --context and --namespace. Under the name kubectl-capt
it is a plugin of kubectl.`,
		Example: `  captctl describe cluster demo --watch
  captctl plan cluster/demo
  captctl logs -f cluster/demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	o.Kube.AddFlags(root.PersistentFlags())
	root.AddCommand(commands(o)...)
	o.completeFlags(root)
	completeEnvironments(root)
	o.guard(root)
	return root
}

// commands are the commands in the order in which help lists them.
func commands(o *Options) []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(o),
		newDownCommand(o),
		newStatusCommand(o),
		newGenerateCommand(o),
		newDescribeCommand(o),
		newPlanCommand(o),
		newApproveCommand(o),
		newRejectCommand(o),
		newCancelCommand(o),
		newRetryCommand(o),
		newLogsCommand(o),
		newHistoryCommand(o),
		newDriftCommand(o),
		newStateCommand(o),
		newUnlockCommand(o),
		newAddonCommand(o),
		newMigrateCommand(o),
		newValidateCommand(o),
		newRenderCommand(o),
		newDoctorCommand(o),
		newVersionCommand(o),
	}
}

// nowhere is where an empty kubeconfig leads.
const nowhere = "http://localhost:8080"

// Config reaches the management cluster that the flags lead to.
func (o *Options) Config() (*rest.Config, error) {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the management cluster: %w", err)
	}
	if raw, err := o.Kube.ToRawKubeConfigLoader().RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == nowhere {
		return nil, clientcmd.ErrEmptyCluster
	}
	// A person at a terminal is not to be slowed down.
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// Client reaches the management cluster that the flags lead to.
func (o *Options) Client() (client.WithWatch, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster: %w", err)
	}
	return c, nil
}

// Namespace is the namespace that the flags or the kubeconfig name.
func (o *Options) Namespace() (string, error) {
	namespace, _, err := o.Kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// reach returns a client and the namespace to look in.
func (o *Options) reach() (client.WithWatch, string, error) {
	namespace, err := o.Namespace()
	if err != nil {
		return nil, "", err
	}
	c, err := o.Client()
	return c, namespace, err
}

// style is how the command's output is shown.
func (o *Options) style() text.Style { return text.StyleOf(o.Out) }

// addOutput gives a command the flag -o.
func addOutput(cmd *cobra.Command, output *text.Output) {
	cmd.Flags().VarP(output, "output", "o", "answer for programs: json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(text.JSON), string(text.YAML)}, cobra.ShellCompDirectiveNoFileComp))
}

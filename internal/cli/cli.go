// Package cli holds the commands of captctl, a file each. Commands read flags
// and print; what they know comes from the packages below.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/scheme"
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
	o := &Options{Streams: streams, Kube: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:           "captctl",
		Short:         "Run and look at clusters that Terraform modules make",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	o.Kube.AddFlags(root.PersistentFlags())
	root.AddCommand(commands(o)...)
	return root
}

// commands are the commands in the order in which help lists them.
func commands(o *Options) []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(o),
		newDownCommand(o),
		newStatusCommand(o),
		newValidateCommand(o),
		newRenderCommand(o),
		newDoctorCommand(o),
		newGenerateCommand(o),
	}
}

// Client reaches the management cluster that the flags lead to.
func (o *Options) Client() (client.WithWatch, error) {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the management cluster: %w", err)
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

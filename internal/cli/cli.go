// Package cli implements the commands of captctl, one file per command or
// group of commands. Commands parse flags and print; the packages below this one do
// the work.
package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Options are shared by all commands.
type Options struct {
	Streams
	// Kube are kubectl's flags that select a cluster and a namespace.
	Kube *genericclioptions.ConfigFlags

	root *cobra.Command
	// color is auto, always or never.
	color text.Output
}

// New returns the captctl command.
func New(streams Streams) *cobra.Command {
	cobra.EnableCommandSorting = false
	streams.Out, streams.Err = text.NewPrintable(streams.Out), text.NewPrintable(streams.Err)
	o := &Options{Streams: streams, Kube: genericclioptions.NewConfigFlags(true), color: colorAuto}
	root := group(&cobra.Command{
		Use:   "captctl",
		Short: "Create and operate clusters that are built from Terraform modules",
		Long: `Create and operate Cluster API clusters that are built from Terraform modules.

Most commands connect to a management cluster with Cluster API and CAPT. Select it
as with kubectl: with --kubeconfig, --context and --namespace. Installed under the
name kubectl-capt, this program is a kubectl plugin.

A workspace is one application of a Terraform module: a WorkspaceTemplateApply.`,
		Example: `  captctl get clusters -A
  captctl describe cluster demo --watch
  captctl show plan cluster/demo
  captctl logs -f cluster/demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	o.root = root
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	o.Kube.AddFlags(root.PersistentFlags())
	root.PersistentFlags().Var(newFormat("value", &o.color, colorAuto, colorAlways, colorNever), "color", "Colours in the output: auto, always or never.")
	completeWords(root, "color", []string{string(colorAuto), string(colorAlways), string(colorNever)})
	for _, g := range commandGroups(o) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersionCommand(o), newReferenceCommand(o))
	root.AddCommand(formerCommands(o)...)
	o.completeFlags(root)
	o.wrapErrors(root)
	return root
}

// commandGroup is a group of commands in the help.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups returns the commands in the order of the help.
func commandGroups(o *Options) []commandGroup {
	return []commandGroup{
		{"Local management cluster:", []*cobra.Command{newLocalCommand(o)}},
		{"Clusters and add-ons:", []*cobra.Command{
			newGenerateCommand(o), newGetCommand(o), newDescribeCommand(o), newSuspendCommand(o), newResumeCommand(o),
			newUICommand(o), newAddonCommand(o), newMigrateCommand(o),
		}},
		{"Terraform workspaces:", []*cobra.Command{
			newPlanCommand(o), newShowCommand(o), newApproveCommand(o), newRejectCommand(o), newReconcileCommand(o), newRunCommand(o), newCancelCommand(o),
			newLogsCommand(o), newHistoryCommand(o), newDriftCommand(o), newStateCommand(o), newAdoptCommand(o), newShellCommand(o), newUnlockCommand(o), newRolloutCommand(o),
		}},
		{"Checks:", []*cobra.Command{newValidateCommand(o), newRenderCommand(o), newPolicyCommand(o), newDoctorCommand(o)}},
	}
}

// formerCommands returns the commands that have another name now.
func formerCommands(o *Options) []*cobra.Command {
	return []*cobra.Command{
		o.former("captctl local up", "up", newUpCommand(o)), o.former("captctl local down", "down", newDownCommand(o)),
		o.former("captctl local status", "status", newStatusCommand(o)), o.former("captctl local env", "env", newEnvCommand(o)),
		o.former("captctl reconcile", "retry", newReconcileCommand(o)),
	}
}

// defaultHost is the address that client-go uses without a kubeconfig.
const defaultHost = "http://localhost:8080"

// Config returns the configuration of the management cluster.
func (o *Options) Config() (*rest.Config, error) {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	if raw, err := o.Kube.ToRawKubeConfigLoader().RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == defaultHost {
		return nil, clientcmd.ErrEmptyCluster
	}
	// The default limits are for controllers; they would slow down a command.
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// Namespace returns the namespace of the flags or the kubeconfig.
func (o *Options) Namespace() (string, error) {
	namespace, _, err := o.Kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("loading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// connect returns a client for the management cluster and the namespace to use.
func (o *Options) connect() (client.WithWatch, string, error) {
	namespace, err := o.Namespace()
	if err != nil {
		return nil, "", err
	}
	config, err := o.Config()
	if err != nil {
		return nil, "", err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, "", fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return c, namespace, nil
}

// The values of the --color flag.
const (
	colorAuto   text.Output = "auto"
	colorAlways text.Output = "always"
	colorNever  text.Output = "never"
)

// style returns the style of the command's output.
func (o *Options) style() text.Style { return o.styleOf(o.Out) }

// styleOf returns the style of a stream, with the colours that the user chose.
func (o *Options) styleOf(w io.Writer) text.Style {
	style := text.StyleOf(w)
	switch o.color {
	case colorAlways:
		style.Colour = true
	case colorNever:
		style.Colour = false
	}
	return style
}

// readFile reads a file, or stdin if the path is "-".
func (o *Options) readFile(path string) ([]byte, error) {
	if path == "-" {
		content, err := io.ReadAll(o.In)
		if err != nil {
			return nil, fmt.Errorf("reading stdin: %w", err)
		}
		return content, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a file: %w", err)
	}
	return content, nil
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/local/environment"
)

// environmentFlags lead to an embedded environment.
type environmentFlags struct{ dir, parts string }

func (f *environmentFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "dir", "", "Directory of all environments. Empty is $XDG_STATE_HOME/capt, or ~/.local/state/capt.")
}

func (f *environmentFlags) addParts(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.parts, "parts", "", "Directory with the programs of Kubernetes, Cluster API and OpenTofu. Empty is bin/parts of the repository.")
}

// environment is the one that the arguments name.
func (f *environmentFlags) environment(args []string) (*environment.Environment, error) {
	name := environment.DefaultName
	if len(args) > 0 {
		name = args[0]
	}
	environment, err := environment.New(name, f.dir)
	if err != nil {
		return nil, &Exit{Code: 2, Err: err}
	}
	environment.Parts = f.parts
	return environment, nil
}

func newUpCommand(o *Options) *cobra.Command {
	var flags environmentFlags
	var demo, addons bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Bring up a management cluster as processes of this machine",
		Long: `Bring up a management cluster as processes of this machine: a Kubernetes control
plane, Cluster API and CAPT with OpenTofu. It needs neither Docker nor a cloud.
Calling it again mends what is broken and leaves alone what runs.

With --demo it also makes a cluster with Flux and Karpenter, and waits until a
pending pod has got a node.`,
		Example: `  captctl up
  captctl up --demo
  captctl up second --dir /var/tmp/capt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			environment, err := flags.environment(args)
			if err != nil {
				return err
			}
			defer deadline(cmd, timeout)()
			if demo {
				return o.runDemo(cmd, environment, addons)
			}
			_, err = o.bringUp(cmd.Context(), environment)
			return err
		},
	}
	flags.add(cmd)
	flags.addParts(cmd)
	cmd.Flags().BoolVar(&demo, "demo", false, "Make a cluster as well, and wait until it is ready.")
	cmd.Flags().BoolVar(&addons, "addons", true, "Install Flux and Karpenter in the demo's cluster.")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "How long to wait until everything is ready.")
	return cmd
}

// bringUp shows the steps, and how the management cluster is reached.
func (o *Options) bringUp(ctx context.Context, environment *environment.Environment) (*environment.Status, error) {
	began := time.Now()
	status, err := environment.Up(ctx, o.showStep)
	if err != nil {
		return nil, fmt.Errorf("bringing up %s: %w", environment.Name, err)
	}
	fmt.Fprintf(o.Out, "The environment %s is ready after %.1f s.\n\n  export KUBECONFIG=%s\n\n", environment.Name, time.Since(began).Seconds(), environment.Kubeconfig())
	return status, nil
}

// showStep prints a step when it has ended.
func (o *Options) showStep(step environment.Step) {
	if step.Done {
		fmt.Fprintf(o.Out, "%6.1f s  %s%s\n", step.Took.Seconds(), step.Name, note(step.Note))
	}
}

func note(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func newDownCommand(o *Options) *cobra.Command {
	var flags environmentFlags
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "End a management cluster of this machine and remove it",
		Long: `End everything that belongs to a management cluster of this machine, local
clusters that it made included, and remove its directory. What its templates have
made elsewhere, such as in a cloud, is not deleted: delete those clusters first.`,
		Example: `  captctl down
  captctl down second --dir /var/tmp/capt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			environment, err := flags.environment(args)
			if err != nil {
				return err
			}
			status, err := environment.Status(cmd.Context())
			if err != nil {
				return err
			}
			if !status.Exists {
				fmt.Fprintf(o.Out, "%s does not exist in %s\n", environment.Name, environment.Dir)
				return nil
			}
			if err := environment.Down(cmd.Context(), o.showStep); err != nil {
				return fmt.Errorf("ending %s: %w", environment.Name, err)
			}
			fmt.Fprintf(o.Out, "%s is gone\n", environment.Name)
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}

func newStatusCommand(o *Options) *cobra.Command {
	var flags environmentFlags
	var output string
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the processes of a management cluster of this machine",
		Long:  "Show the processes of a management cluster of this machine and of local clusters\nthat it has made. It ends with 0 only when the management cluster is ready.",
		Example: `  captctl status
  captctl status -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return &Exit{Code: 2, Err: fmt.Errorf("no output format %q: use json, or leave it out", output)}
			}
			environment, err := flags.environment(args)
			if err != nil {
				return err
			}
			status, err := environment.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(o.Out)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(status)
			} else {
				err = o.showStatus(status)
			}
			if err == nil && !status.Ready {
				err = &Exit{Code: 1}
			}
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for people.")
	return cmd
}

func (o *Options) showStatus(status *environment.Status) error {
	if !status.Exists {
		fmt.Fprintf(o.Out, "%s does not exist in %s: make it with `captctl up`\n", status.Name, status.Directory)
		return nil
	}
	fmt.Fprintf(o.Out, "%s, Kubernetes %s, %s: %s\n", status.Name, status.KubernetesVersion, status.Endpoint, readiness(status.Ready))
	w := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLUSTER\tPART\tPID\tSTATE\tRESTARTS\tLOG")
	rows := func(cluster string, parts []environment.Part) {
		for _, part := range parts {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\n", cluster, part.Name, part.PID, stateOf(part), part.Restarts, part.Log)
		}
	}
	rows("(management)", status.Parts)
	for _, cluster := range status.Clusters {
		rows(cluster.Name, cluster.Parts)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func readiness(ready bool) string {
	if ready {
		return "ready"
	}
	return "not ready"
}

// stateOf says in a word or two how a part is.
func stateOf(part environment.Part) string {
	switch {
	case part.Running:
		return readiness(part.Ready)
	case part.Waiting != "":
		return "waiting for " + part.Waiting
	case part.LastExit != "":
		return "ended: " + part.LastExit
	default:
		return "stopped"
	}
}

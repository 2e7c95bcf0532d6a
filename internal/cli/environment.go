package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/web"
)

// environmentHelp describes the argument of the commands for local environments.
const environmentHelp = `

NAME is the name of the environment. The default name is "` + environment.DefaultName + `".`

// localCall is a call of a command for a local environment, which the flags select.
type localCall struct {
	*Options
	dir, parts string
}

func (f *localCall) add(cmd *cobra.Command) {
	cmd.ValidArgsFunction = f.completeName
	cmd.Flags().StringVar(&f.dir, "dir", "", "Directory of the local environments. (default $XDG_STATE_HOME/capt or ~/.local/state/capt)")
}

func (f *localCall) addParts(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.parts, "parts", "", "Directory with the programs of Kubernetes, Cluster API and OpenTofu. (default bin/parts of the repository)")
}

// environment returns the environment that the arguments name.
func (f *localCall) environment(args []string) (*environment.Environment, error) {
	name := environment.DefaultName
	if len(args) > 0 {
		name = args[0]
	}
	env, err := environment.New(name, f.dir)
	if err != nil {
		return nil, &Exit{Code: 2, Err: err}
	}
	env.Parts, env.Page = f.parts, web.Built()
	return env, nil
}

// status returns the environment that the arguments name, and its status.
func (f *localCall) status(ctx context.Context, args []string) (*environment.Environment, *environment.Status, error) {
	env, err := f.environment(args)
	if err != nil {
		return nil, nil, err
	}
	status, err := env.Status(ctx)
	return env, status, err
}

func newLocalCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "local",
		Short: "Start, use and remove a management cluster on this machine",
	}, newUpCommand(o), newDownCommand(o), newStatusCommand(o), newEnvCommand(o))
}

func newUpCommand(o *Options) *cobra.Command {
	flags := &localCall{Options: o}
	var demo, addons bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Start a local management cluster",
		Long: `Start a local management cluster: a Kubernetes control plane, Cluster API and CAPT
with OpenTofu, as processes on this machine. It needs neither Docker nor a cloud.
Run the command again to repair a broken environment; running parts stay as they
are.

With --demo, the command also creates a cluster with Flux and Karpenter, and waits
until a pending pod has a node.` + environmentHelp,
		Example: `  captctl local up
  captctl local up --demo
  captctl local up second --dir /var/tmp/capt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := flags.environment(args)
			if err != nil {
				return err
			}
			defer setTimeout(cmd, timeout)()
			if demo {
				return flags.runDemo(cmd, env, addons)
			}
			if _, err = flags.start(cmd.Context(), env); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "  %s\n", useEnvironment(cmd, env))
			if link := env.PageLink(); link != "" {
				fmt.Fprintf(o.Out, "\nOpen this link in a browser, which works once: %s\n", link)
			}
			return nil
		},
	}
	flags.add(cmd)
	flags.addParts(cmd)
	cmd.Flags().BoolVar(&demo, "demo", false, "Also create a cluster, and wait until it is ready.")
	cmd.Flags().BoolVar(&addons, "addons", true, "Install Flux and Karpenter in the demo cluster.")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "Time to wait until everything is ready.")
	return cmd
}

// start starts an environment and prints its steps.
func (f *localCall) start(ctx context.Context, env *environment.Environment) (*environment.Status, error) {
	started := time.Now()
	status, err := env.Up(ctx, f.showStep)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", env.Name, err)
	}
	fmt.Fprintf(f.Out, "Environment %s is ready after %.1f s.\n\n", env.Name, time.Since(started).Seconds())
	return status, nil
}

// showStep prints a step that is done.
func (f *localCall) showStep(step environment.Step) {
	if !step.Done {
		return
	}
	line := fmt.Sprintf("%6.1f s  %s", step.Took.Seconds(), step.Name)
	if step.Note != "" {
		line += ": " + step.Note
	}
	fmt.Fprintln(f.Out, line)
}

func newDownCommand(o *Options) *cobra.Command {
	flags := &localCall{Options: o}
	var yes bool
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Stop and remove a local management cluster",
		Long: `Stop all processes of a local management cluster and of the local clusters that it
created, and remove its directory. Resources elsewhere, such as in a cloud, are not
deleted: delete the clusters that own them first.` + environmentHelp,
		Example: `  captctl local down
  captctl local down second --dir /var/tmp/capt --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, status, err := flags.status(cmd.Context(), args)
			if err != nil {
				return err
			}
			if !status.Exists {
				fmt.Fprintf(o.Out, "%s does not exist in %s\n", env.Name, env.Dir)
				return nil
			}
			if err := o.confirm(cmd.Context(), yes, fmt.Sprintf("Remove environment %s with %s and the states of its workspaces?", env.Name, text.Count(len(status.Clusters), "local cluster"))); err != nil {
				return err
			}
			if err := env.Down(cmd.Context(), flags.showStep); err != nil {
				return fmt.Errorf("stopping %s: %w", env.Name, err)
			}
			fmt.Fprintf(o.Out, "Removed environment %s\n", env.Name)
			if os.Getenv("KUBECONFIG") == env.Kubeconfig() {
				// The shell may also remember where it found the programs of the environment.
				fmt.Fprintln(o.Out, "This shell still uses it. To end that: unset KUBECONFIG; hash -r")
			}
			return nil
		},
	}
	flags.add(cmd)
	addYes(cmd, &yes)
	return cmd
}

func newStatusCommand(o *Options) *cobra.Command {
	flags := &localCall{Options: o}
	var output text.Output
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the processes of a local management cluster",
		Long: `Show the processes of a local management cluster and of the local clusters that it
created. The exit code is 0 only if the management cluster is ready.` + environmentHelp,
		Example: `  captctl local status
  captctl local status -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, status, err := flags.status(cmd.Context(), args)
			if err != nil {
				return err
			}
			if output == "json" {
				err = text.PrintJSON(o.Out, status)
			} else {
				err = flags.showStatus(status, environmentArguments(cmd, env))
			}
			if err == nil && !status.Ready {
				err = &Exit{Code: 1}
			}
			return err
		},
	}
	flags.add(cmd)
	addFormat(cmd, &output, "json")
	return cmd
}

// showStatus prints the status of an environment, which the arguments select.
func (f *localCall) showStatus(status *environment.Status, arguments string) error {
	if !status.Exists {
		fmt.Fprintf(f.Out, "%s does not exist in %s: create it with captctl local up%s\n", status.Name, status.Directory, arguments)
		return nil
	}
	fmt.Fprintf(f.Out, "%s, Kubernetes %s, %s: %s\n", status.Name, status.KubernetesVersion, status.Endpoint, readiness(status.Ready))
	table := text.NewTable("CLUSTER", "PART", "PID", "STATE", "RESTARTS", "LOG")
	addRows := func(cluster string, parts []environment.Part) {
		for _, part := range parts {
			table.Add(text.Cells(cluster, part.Name, fmt.Sprint(part.PID), partState(part), fmt.Sprint(part.Restarts), part.Log)...)
		}
	}
	addRows("(management)", status.Parts)
	for _, cluster := range status.Clusters {
		addRows(cluster.Name, cluster.Parts)
	}
	return table.Print(f.Out, text.Style{})
}

func readiness(ready bool) string {
	if ready {
		return "ready"
	}
	return "not ready"
}

// partState returns the state of a process in the status table.
func partState(part environment.Part) string {
	switch {
	case part.Running:
		return readiness(part.Ready)
	case part.Waiting != "":
		return "waiting for " + part.Waiting
	case part.LastExit != "":
		return "exited: " + part.LastExit
	default:
		return "stopped"
	}
}

func newEnvCommand(o *Options) *cobra.Command {
	flags := &localCall{Options: o}
	var output text.Output
	cmd := &cobra.Command{
		Use:   "env [NAME]",
		Short: "Print how a shell connects to a local management cluster",
		Long: `Print the variables with which a shell uses a local management cluster: KUBECONFIG,
and PATH with the kubectl, captctl and tofu of the environment first.` + environmentHelp,
		Example: `  eval "$(captctl local env)"
  captctl local env -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, status, err := flags.status(cmd.Context(), args)
			if err != nil {
				return err
			}
			if !status.Exists {
				return fmt.Errorf("environment %s does not exist in %s: create it with captctl local up%s", env.Name, env.Dir, environmentArguments(cmd, env))
			}
			if output == "json" {
				return text.PrintJSON(o.Out, map[string]string{"kubeconfig": env.Kubeconfig(), "bin": env.BinDir()})
			}
			fmt.Fprintf(o.Out, "export KUBECONFIG=%s\nexport PATH=%s:\"$PATH\"\n", shellWord(env.Kubeconfig()), shellWord(env.BinDir()))
			return nil
		},
	}
	flags.add(cmd)
	addFormat(cmd, &output, "json")
	return cmd
}

// shellWord quotes a word for a POSIX shell, if it needs quotes.
func shellWord(word string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !isPlain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/local/demo"
	"github.com/appthrust/capt/internal/local/environment"
	"github.com/appthrust/capt/internal/message"
)

// runDemo starts the environment, creates the demo cluster and shows its progress
// until it is ready.
func (f *localCall) runDemo(cmd *cobra.Command, env *environment.Environment, addons bool) error {
	ctx, started := cmd.Context(), time.Now()
	status, err := f.start(ctx, env)
	if err != nil {
		return err
	}
	demo, err := demo.New(env, status, addons)
	if err != nil {
		return err
	}
	fmt.Fprintf(f.Out, "Cluster %s\n", demo.Name())
	show := &stepLine{out: f.Out, live: text.IsTerminal(f.Out)}
	if err := demo.Run(ctx, show.report); err != nil {
		show.clear()
		return fmt.Errorf("cluster %s is not ready: %w", demo.Name(), err)
	}
	fmt.Fprintln(f.Out)
	if err := f.showTree(ctx, env, demo.Name()); err != nil {
		return err
	}
	fmt.Fprintf(f.Out, "\nEverything is ready after %.1f s.\n\n", time.Since(started).Seconds())
	return f.showNext(cmd, env, demo.Name(), addons)
}

// showTree prints the cluster as captctl describe does.
func (f *localCall) showTree(ctx context.Context, env *environment.Environment, name string) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: environment.Namespace, Name: name}
	objects, err := describe.Read(ctx, c, key, false)
	if err != nil {
		return err
	}
	objects.Nodes = describe.ReadNodes(ctx, c, workload.Connector{}, key)
	return describe.Render(f.Out, describe.Build(objects, false), f.style(), time.Now())
}

// section is a title with commands.
type section struct {
	title    string
	commands []string
}

// showNext prints commands to try next. The titles are not comments: interactive zsh has none.
func (f *localCall) showNext(cmd *cobra.Command, env *environment.Environment, cluster string, addons bool) error {
	status, err := env.Status(cmd.Context())
	if err != nil {
		return err
	}
	sections := []section{{"In the management cluster", []string{
		useEnvironment(cmd, env),
		"kubectl get cluster,captcluster,captcontrolplane,captmachinepool,wsta",
		"captctl describe cluster " + cluster,
		"captctl local status" + environmentArguments(cmd, env),
		"captctl doctor",
	}}}
	for _, local := range status.Clusters {
		if local.Name != cluster {
			continue
		}
		kubectlIn := "kubectl --kubeconfig " + shellWord(filepath.Join(local.Directory, "kubeconfig"))
		inCluster := section{"In cluster " + cluster, []string{kubectlIn + " get nodes,pods -A"}}
		if addons {
			inCluster.commands = append(inCluster.commands, kubectlIn+" get helmrelease,nodepool,nodeclaim -A")
		}
		sections = append(sections, inCluster)
		if addons {
			sections = append(sections, section{"For more pods, for which Karpenter adds nodes", []string{kubectlIn + " scale deployment inflate --replicas=30"}})
		}
	}
	if link := env.PageLink(); link != "" {
		sections = append(sections, section{"In the browser (this link works once, captctl local up prints another one)", []string{link}})
	}
	sections = append(sections, section{"To delete the cluster with everything that belongs to it, and the environment", []string{
		"kubectl delete cluster " + cluster, "captctl local down" + environmentArguments(cmd, env),
	}})
	fmt.Fprintln(f.Out, "Try next:")
	for _, s := range sections {
		fmt.Fprintf(f.Out, "\n  %s:\n    %s\n", s.title, strings.Join(s.commands, "\n    "))
	}
	return nil
}

// useEnvironment returns the command with which a shell uses an environment.
func useEnvironment(cmd *cobra.Command, env *environment.Environment) string {
	self := cmd.Root().Name()
	if path, err := os.Executable(); err == nil {
		self = invocation(path)
	}
	return fmt.Sprintf(`eval "$(%s local env%s)"`, shellWord(self), environmentArguments(cmd, env))
}

// environmentArguments returns the arguments that select an environment, each after a
// space.
func environmentArguments(cmd *cobra.Command, env *environment.Environment) string {
	arguments := ""
	if env.Name != environment.DefaultName {
		arguments = " " + env.Name
	}
	if dir := cmd.Flag("dir"); dir.Changed {
		arguments += " --dir " + shellWord(dir.Value.String())
	}
	return arguments
}

// invocation returns the command for a program: its name if it is in PATH, else its
// path, relative to the working directory if it is below.
func invocation(path string) string {
	name := filepath.Base(path)
	if _, err := exec.LookPath(name); err == nil {
		return name
	}
	if dir, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(relative, "..") {
			return relative
		}
	}
	return path
}

// stepLine prints each finished step on its own line. On a terminal it also shows
// the current step.
type stepLine struct {
	out  io.Writer
	live bool
}

// maxStepWidth is the width of the line for the current step.
const maxStepWidth = 100

func (s *stepLine) report(p demo.Progress) {
	s.clear()
	switch {
	case p.Done:
		fmt.Fprintf(s.out, "%6.1f s  %s\n", p.Took.Seconds(), p.Step)
	case s.live:
		line := fmt.Sprintf("%6.1f s  %s … %s", p.Took.Seconds(), p.Step, p.Pending)
		fmt.Fprint(s.out, message.TruncateWidth(line, maxStepWidth))
	}
}

// clear removes the line of the current step.
func (s *stepLine) clear() {
	if s.live {
		fmt.Fprint(s.out, text.Return+text.Escape+"[K")
	}
}

// setTimeout sets a timeout for the context of a command.
func setTimeout(cmd *cobra.Command, timeout time.Duration) context.CancelFunc {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("not ready after %s", timeout))
	cmd.SetContext(ctx)
	return cancel
}

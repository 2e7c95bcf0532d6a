package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/appthrust/capt/internal/local/controlplane"
)

// flags returns a flag set with the flags of all commands.
func flags(command string, dir *string) *pflag.FlagSet {
	set := pflag.NewFlagSet("localcluster "+command, pflag.ContinueOnError)
	set.SortFlags = false
	set.StringVar(dir, "dir", "", "Directory of the control plane.")
	return set
}

// parse parses the flags. It reports false if the user asked for help.
func parse(set *pflag.FlagSet, args []string) (bool, error) {
	err := set.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return false, nil
	}
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: see --help for the flags", set.Arg(0))
	}
	return err == nil, err
}

func up(ctx context.Context, args []string) error {
	var dir string
	var spec controlplane.Spec
	var timeout time.Duration
	set := flags("up", &dir)
	set.StringVar(&spec.Name, "name", "", "Name of the cluster.")
	set.StringVar(&spec.KubernetesVersion, "kubernetes-version", "", "Minor version of Kubernetes, such as 1.36.")
	set.StringVar(&spec.BinDir, "bin-dir", "", "Directory that is searched for programs first, before PATH, the directory of localcluster and its subdirectory parts.")
	set.StringSliceVar(&spec.With, "with", nil, "Extra parts: "+strings.Join(controlplane.Extras, ", ")+".")
	set.StringVar(&spec.TokenWebhook, "token-webhook", "", "Path of a kubeconfig for a webhook that reviews bearer tokens.")
	set.StringVar(&spec.Incarnation, "incarnation", "", "Text to write to the file incarnation once the control plane is ready.")
	set.DurationVar(&timeout, "timeout", 2*time.Minute, "How long to wait until the control plane is ready.")
	if ok, err := parse(set, args); !ok {
		return err
	}
	cluster, err := controlplane.New(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready after %s", timeout))
	defer cancel()
	began := time.Now()
	state, err := cluster.Up(ctx, spec)
	if err != nil {
		return err
	}
	fmt.Printf("%s is ready at %s with Kubernetes %s after %.1f s\n", state.Name, state.Endpoint, state.KubernetesVersion, time.Since(began).Seconds())
	return nil
}

func run(ctx context.Context, args []string) error {
	var dir string
	if ok, err := parse(flags("run", &dir), args); !ok {
		return err
	}
	return controlplane.Supervise(ctx, dir)
}

func stop(ctx context.Context, args []string) error {
	return act(ctx, "stop", args, (*controlplane.Cluster).Stop)
}

func down(ctx context.Context, args []string) error {
	return act(ctx, "down", args, (*controlplane.Cluster).Down)
}

func act(ctx context.Context, command string, args []string, action func(*controlplane.Cluster, context.Context) error) error {
	var dir string
	if ok, err := parse(flags(command, &dir), args); !ok {
		return err
	}
	cluster, err := controlplane.New(dir)
	if err != nil {
		return err
	}
	return action(cluster, ctx)
}

// status prints the status. It returns an error unless the control plane is ready.
func status(ctx context.Context, args []string) error {
	var dir, output string
	set := flags("status", &dir)
	set.StringVarP(&output, "output", "o", "", "Output format: json.")
	if ok, err := parse(set, args); !ok {
		return err
	}
	if output != "" && output != "json" {
		return fmt.Errorf("unknown output format %q: use json", output)
	}
	cluster, err := controlplane.New(dir)
	if err != nil {
		return err
	}
	state, err := cluster.Status(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(state)
	} else {
		err = table(state)
	}
	if err == nil && !state.Ready {
		err = errNotReady
	}
	return err
}

func table(state *controlplane.Status) error {
	if !state.Exists {
		fmt.Printf("no control plane in %s\n", state.Directory)
		return nil
	}
	words := map[bool]string{true: "ready", false: "not ready"}
	fmt.Printf("%s, Kubernetes %s, %s: %s\n", state.Name, state.KubernetesVersion, state.Endpoint, words[state.Ready])
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PART\tPID\tSTATE\tRESTARTS\tLAST EXIT")
	for _, part := range append(state.Parts, state.Workloads...) {
		condition := "stopped"
		if part.Running {
			condition = words[part.Ready]
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", part.Name, part.PID, condition, part.Restarts, part.LastExit)
	}
	return w.Flush()
}

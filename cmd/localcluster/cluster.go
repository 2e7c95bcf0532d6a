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

// flags returns a set with the flag that every command has.
func flags(command string, dir *string) *pflag.FlagSet {
	set := pflag.NewFlagSet("localcluster "+command, pflag.ContinueOnError)
	set.SortFlags = false
	set.StringVar(dir, "dir", "", "Directory of the control plane.")
	return set
}

// parse reports false when help was asked for.
func parse(set *pflag.FlagSet, args []string) (bool, error) {
	err := set.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return false, nil
	}
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: everything is given by flags, see --help", set.Arg(0))
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
	set.StringVar(&spec.BinDir, "bin-dir", "", "Where programs are looked for first; then come PATH, the directory of localcluster and parts/ in it.")
	set.StringSliceVar(&spec.With, "with", nil, "Extra parts: "+strings.Join(controlplane.Extras, ", ")+".")
	set.StringVar(&spec.TokenWebhook, "token-webhook", "", "Kubeconfig file of a webhook that reviews bearer tokens.")
	set.StringVar(&spec.Incarnation, "incarnation", "", "Text that is written to the file incarnation once the control plane is ready.")
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
	return end(ctx, "stop", args, (*controlplane.Cluster).Stop)
}

func down(ctx context.Context, args []string) error {
	return end(ctx, "down", args, (*controlplane.Cluster).Down)
}

func end(ctx context.Context, command string, args []string, how func(*controlplane.Cluster, context.Context) error) error {
	var dir string
	if ok, err := parse(flags(command, &dir), args); !ok {
		return err
	}
	cluster, err := controlplane.New(dir)
	if err != nil {
		return err
	}
	return how(cluster, ctx)
}

// status ends with 0 only when the control plane is ready.
func status(ctx context.Context, args []string) error {
	var dir, output string
	set := flags("status", &dir)
	set.StringVarP(&output, "output", "o", "", "json, or nothing for people.")
	if ok, err := parse(set, args); !ok {
		return err
	}
	if output != "" && output != "json" {
		return fmt.Errorf("no output format %q: use json, or leave it out", output)
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
	word := map[bool]string{true: "ready", false: "not ready"}
	fmt.Printf("%s, Kubernetes %s, %s: %s\n", state.Name, state.KubernetesVersion, state.Endpoint, word[state.Ready])
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PART\tPID\tSTATE\tRESTARTS\tLAST EXIT")
	for _, part := range append(state.Parts, state.Workloads...) {
		condition := "stopped"
		if part.Running {
			condition = word[part.Ready]
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", part.Name, part.PID, condition, part.Restarts, part.LastExit)
	}
	return w.Flush()
}

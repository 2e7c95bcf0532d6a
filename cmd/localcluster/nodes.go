package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/appthrust/capt/internal/local/controlplane"
	"github.com/appthrust/capt/internal/local/node"
)

// The kubeconfig is passed in the environment, because every user of the machine can
// read arguments.
const (
	kubeconfigEnv = "LOCALCLUSTER_KUBECONFIG"
	nodeEnv       = "LOCALCLUSTER_NODE"
)

const nodeUsage = `localcluster node creates and deletes nodes that KWOK simulates.

  localcluster node apply     creates or updates the node
  localcluster node delete    deletes it; succeeds if the cluster no longer exists

Pass the node as JSON in ` + nodeEnv + ` or on standard input, with the fields name,
providerID, zone, instanceType, capacityType, kubernetesVersion, labels, taints, tags
and addresses. Pass the content of the kubeconfig in ` + kubeconfigEnv + `.
`

func nodes(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "apply" && args[0] != "delete" {
		fmt.Fprint(os.Stderr, nodeUsage)
		return errNotReady
	}
	set := pflag.NewFlagSet("localcluster node "+args[0], pflag.ContinueOnError)
	set.Usage = func() { fmt.Fprint(os.Stderr, nodeUsage) }
	if ok, err := parse(set, args[1:]); !ok {
		return err
	}
	kubeconfig := os.Getenv(kubeconfigEnv)
	if kubeconfig == "" {
		return errors.New(kubeconfigEnv + " is not set: set it to the content of a kubeconfig file")
	}
	client, err := node.NewClient([]byte(kubeconfig))
	if err != nil {
		return err
	}
	client.MaxAbsence = func() time.Duration { return maxAbsence(controlplane.StateOf([]byte(kubeconfig))) }
	text := []byte(os.Getenv(nodeEnv))
	if len(text) == 0 {
		if text, err = io.ReadAll(os.Stdin); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	desired, err := node.Parse(text)
	if err != nil {
		return err
	}
	if args[0] == "apply" {
		if err := client.Apply(ctx, desired); err != nil {
			return err
		}
		fmt.Printf("node %s is applied\n", desired.Name)
		return nil
	}
	note, err := client.Delete(ctx, desired.Name, desired.ProviderID)
	if err != nil {
		return err
	}
	if note == "" {
		note = "deleted"
	}
	fmt.Printf("node %s: %s\n", desired.Name, note)
	return nil
}

// maxAbsence returns how long the API server of a cluster may refuse connections
// before the cluster counts as deleted.
func maxAbsence(state controlplane.State) time.Duration {
	switch state {
	case controlplane.Supervised:
		return node.MaxAbsence
	case controlplane.Stopped:
		return 0
	default:
		return node.DefaultAbsence
	}
}

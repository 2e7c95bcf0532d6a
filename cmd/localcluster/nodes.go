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

// The kubeconfig comes by the environment: arguments can be read by every user
// of the machine.
const (
	kubeconfigEnv = "LOCALCLUSTER_KUBECONFIG"
	nodeEnv       = "LOCALCLUSTER_NODE"
)

const nodeUsage = `localcluster node makes and removes nodes that kwok plays.

  localcluster node apply     makes or changes the node
  localcluster node delete    removes it; a cluster that is gone is no error

The node comes as JSON in ` + nodeEnv + `, or on standard input: name, providerID,
zone, instanceType, capacityType, kubernetesVersion, labels, taints, tags,
addresses. The content of the kubeconfig is in ` + kubeconfigEnv + `.
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
		return errors.New(kubeconfigEnv + " is not set: put the content of a kubeconfig file into it")
	}
	client, err := node.NewClient([]byte(kubeconfig))
	if err != nil {
		return err
	}
	client.MayBeAway = func() time.Duration { return mayBeAway(controlplane.Find([]byte(kubeconfig))) }
	text := []byte(os.Getenv(nodeEnv))
	if len(text) == 0 {
		if text, err = io.ReadAll(os.Stdin); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	wanted, err := node.Parse(text)
	if err != nil {
		return err
	}
	if args[0] == "apply" {
		if err := client.Apply(ctx, wanted); err != nil {
			return err
		}
		fmt.Printf("node %s is applied\n", wanted.Name)
		return nil
	}
	note, err := client.Delete(ctx, wanted.Name, wanted.ProviderID)
	if err != nil {
		return err
	}
	if note == "" {
		note = "deleted"
	}
	fmt.Printf("node %s: %s\n", wanted.Name, note)
	return nil
}

// mayBeAway is how long the API server of a cluster may refuse connections
// before the cluster is taken for gone. Of one of this machine that is known.
func mayBeAway(presence controlplane.Presence) time.Duration {
	switch presence {
	case controlplane.Kept:
		return node.Patience
	case controlplane.Gone:
		return 0
	default:
		return node.Absence
	}
}

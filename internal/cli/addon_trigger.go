package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/cli/describe"
	"github.com/appthrust/capt/internal/cli/operate"
	"github.com/appthrust/capt/internal/message"
)

func newAddonTriggerCommand(o *Options) *cobra.Command {
	var cluster string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "trigger NAME",
		Short: "Have an add-on applied again now",
		Long: `Have an add-on applied again now, in every cluster that has it, and wait until it
is ready again. With --cluster the wait is for that cluster. It ends with 1 if
the add-on fails there.`,
		Example:           "  captctl addon trigger karpenter\n  captctl addon trigger karpenter --cluster demo --no-wait",
		Args:              oneName("add-on"),
		ValidArgsFunction: o.complete(addonNames, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, addon, err := o.addon(ctx, args[0])
			if err != nil {
				return err
			}
			if cluster != "" {
				if _, err := statusIn(addon, cluster); err != nil {
					return err
				}
			}
			trigger := time.Now().UTC().Format(time.RFC3339Nano)
			before := addon.DeepCopy()
			if addon.Annotations == nil {
				addon.Annotations = map[string]string{}
			}
			addon.Annotations[addonsv1.TriggerAnnotation] = trigger
			if err := c.Patch(ctx, addon, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("triggering %s: %w", addon.Name, err)
			}
			fmt.Fprintf(o.Out, "Triggered %s\n", addon.Name)
			if noWait {
				return nil
			}
			return o.awaitTrigger(ctx, c, addon, trigger, cluster)
		},
	}
	o.addClusterFlag(cmd, &cluster)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is ready again")
	return cmd
}

// addClusterFlag gives a command the flag that chooses a Cluster. It takes the
// place of kubectl's flag of that name, which chooses an entry of the kubeconfig.
func (o *Options) addClusterFlag(cmd *cobra.Command, cluster *string) {
	cmd.Flags().StringVar(cluster, "cluster", "", "the Cluster")
	_ = cmd.RegisterFlagCompletionFunc("cluster", o.completeFlag(operate.ClusterNames))
}

func (o *Options) awaitTrigger(ctx context.Context, c client.WithWatch, addon *addonsv1.CAPTAddon, trigger, cluster string) error {
	p := o.progress()
	var last *addonsv1.CAPTAddon
	err := operate.Watch(ctx, c, &addonsv1.CAPTAddonList{}, client.ObjectKeyFromObject(addon), func(a *addonsv1.CAPTAddon) (bool, error) {
		last = a
		p.show(addonProgress(a, cluster))
		return a.Status.HandledTrigger == trigger && settledIn(a, cluster), nil
	})
	p.end()
	if err != nil {
		return err
	}
	for _, c := range last.Status.Clusters {
		if concerns(c, cluster) && describe.StateFor(c.Reason) == describe.StateFailed {
			return fmt.Errorf("%s fails in %s: %s: %s", last.Name, c.Name, c.Reason, c.Message)
		}
	}
	fmt.Fprintf(o.Out, "%s\n", addonProgress(last, cluster))
	return nil
}

// concerns tells whether a cluster is the one that is meant.
func concerns(c addonsv1.ClusterAddonStatus, cluster string) bool {
	return cluster == "" || c.Name == cluster
}

// settledIn tells whether an add-on is ready, or has failed, where it is meant to
// be.
func settledIn(addon *addonsv1.CAPTAddon, cluster string) bool {
	return !slices.ContainsFunc(addon.Status.Clusters, func(c addonsv1.ClusterAddonStatus) bool {
		ready := c.Ready != nil && *c.Ready
		return concerns(c, cluster) && !ready && describe.StateFor(c.Reason) != describe.StateFailed
	})
}

// addonProgress says how far an add-on is, and what it waits for first.
func addonProgress(addon *addonsv1.CAPTAddon, cluster string) string {
	line := fmt.Sprintf("%s is ready in %d of %d clusters", addon.Name, number(addon.Status.Ready), number(addon.Status.Matched))
	for _, c := range addon.Status.Clusters {
		if cluster != "" && c.Name != cluster || cluster == "" && c.Ready != nil && *c.Ready {
			continue
		}
		return strings.TrimSpace(fmt.Sprintf("%s; %s: %s %s", line, c.Name, c.Reason, message.OneLine(c.Message)))
	}
	return line
}

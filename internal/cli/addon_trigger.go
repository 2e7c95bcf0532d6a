package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/client/describe"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/message"
)

func newAddonTriggerCommand(o *Options) *cobra.Command {
	var wait bool
	cmd := o.addonCommand(&cobra.Command{
		Use:   "trigger NAME",
		Short: "Apply an add-on again now",
		Long: `Apply an add-on again now in every selected cluster, and wait until it is ready.
With --cluster, wait only for that cluster. The exit code is 1 if the add-on
fails.`,
		Example: "  captctl addon trigger karpenter\n  captctl addon trigger karpenter --cluster demo --wait=false",
	}, "Wait only for this cluster.", func(ctx context.Context, a *addonCall) error {
		if _, err := a.statuses(); err != nil {
			return err
		}
		trigger, err := operate.Trigger(ctx, a.client, a.addon)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "Triggered %s\n", a.addon.Name)
		if !wait {
			return nil
		}
		return a.wait(ctx, trigger)
	})
	cmd.Flags().BoolVar(&wait, "wait", true, "Wait until the add-on is ready.")
	addTimeout(cmd, &wait)
	return cmd
}

// wait shows the progress of an add-on until the trigger is handled and the
// add-on is ready, or has failed. It returns an error if it has failed.
func (a *addonCall) wait(ctx context.Context, trigger string) error {
	p := a.progress()
	var last *addonsv1.CAPTAddon
	err := operate.Watch(ctx, a.client, &addonsv1.CAPTAddonList{}, a.addon, p.outage, func(addon *addonsv1.CAPTAddon) (bool, error) {
		last = addon
		// Before that, the status is from before the trigger.
		handled := addon.Status.HandledTrigger == trigger
		done := handled && settled(addon, a.cluster)
		if handled && !done {
			p.show(addonProgress(addon, a.cluster))
		}
		return done, nil
	})
	p.end()
	if err != nil {
		return a.stillRequested(err, "the add-on is triggered and may still be updated")
	}
	for _, c := range last.Status.Clusters {
		if isSelected(c, a.cluster) && describe.StateFor(c.Reason) == describe.StateFailed {
			return fmt.Errorf("%s failed in cluster %s: %s: %s", last.Name, c.Name, c.Reason, c.Message)
		}
	}
	fmt.Fprintf(a.Out, "%s\n", addonProgress(last, a.cluster))
	return nil
}

// isSelected reports whether a status is that of the given cluster. An empty name
// selects all clusters.
func isSelected(c addonsv1.ClusterAddonStatus, cluster string) bool {
	return cluster == "" || c.Name == cluster
}

// settled reports whether an add-on is ready or has failed in the given cluster, or
// in all clusters.
func settled(addon *addonsv1.CAPTAddon, cluster string) bool {
	return !slices.ContainsFunc(addon.Status.Clusters, func(c addonsv1.ClusterAddonStatus) bool {
		return isSelected(c, cluster) && !ptr.Deref(c.Ready, false) && describe.StateFor(c.Reason) != describe.StateFailed
	})
}

// addonProgress returns the number of ready clusters and the status of the given
// cluster, or of the first one that is not ready.
func addonProgress(addon *addonsv1.CAPTAddon, cluster string) string {
	line := fmt.Sprintf("%s is ready in %d of %d clusters", addon.Name, ptr.Deref(addon.Status.Ready, 0), ptr.Deref(addon.Status.Matched, 0))
	for _, c := range addon.Status.Clusters {
		if cluster != "" && c.Name != cluster || cluster == "" && ptr.Deref(c.Ready, false) {
			continue
		}
		return strings.TrimSpace(fmt.Sprintf("%s; %s: %s %s", line, c.Name, c.Reason, message.OneLine(c.Message)))
	}
	return line
}

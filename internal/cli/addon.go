package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

func newAddonCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "addon",
		Short: "Install and update add-ons of clusters",
		Long: `Install and update add-ons of clusters. An add-on (CAPTAddon) installs manifests or a
Helm release in all clusters of its namespace that have certain labels.`,
	}, o.former("captctl get addons", "list", newListCommand(o, addonListing)), newAddonStatusCommand(o), newAddonTriggerCommand(o), newAddonInstallCommand(o))
}

// addonSummary is the structured output of captctl get addons.
type addonSummary struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Version   string   `json:"version,omitempty"`
	Selector  string   `json:"selector"`
	DependsOn []string `json:"dependsOn,omitempty"`
	Matched   int32    `json:"matched"`
	Ready     int32    `json:"ready"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message,omitempty"`
}

func summaryOf(addon *addonsv1.CAPTAddon) addonSummary {
	s := addonSummary{
		Namespace: addon.Namespace, Name: addon.Name, Selector: metav1.FormatLabelSelector(&addon.Spec.ClusterSelector),
		Matched: ptr.Deref(addon.Status.Matched, 0), Ready: ptr.Deref(addon.Status.Ready, 0),
	}
	switch {
	case addon.Spec.Helm != nil:
		s.Version = addon.Spec.Helm.Chart.Version
	case addon.Spec.Versions != nil:
		s.Version = addon.Spec.Versions.Version
	}
	for _, dependency := range addon.Spec.DependsOn {
		s.DependsOn = append(s.DependsOn, dependency.Name)
	}
	if c := meta.FindStatusCondition(addon.Status.Conditions, "Ready"); c != nil {
		s.Reason, s.Message = c.Reason, c.Message
	}
	return s
}

// addonCall is a call of a command for one add-on.
type addonCall struct {
	*Options
	client client.WithWatch
	addon  *addonsv1.CAPTAddon
	// cluster is the name of the only cluster that the user wants, or empty.
	cluster string
}

// addonCommand adds the arguments, the completion and the flag --cluster to a command for one
// add-on. The flag replaces that of kubectl, which selects a cluster of the kubeconfig.
func (o *Options) addonCommand(cmd *cobra.Command, clusterHelp string, run func(context.Context, *addonCall) error) *cobra.Command {
	a := &addonCall{Options: o, addon: &addonsv1.CAPTAddon{}}
	namedCommand(o, cmd, "add-on", a.addon, &addonsv1.CAPTAddonList{}, func(ctx context.Context, c client.WithWatch) error {
		a.client = c
		return run(ctx, a)
	})
	cmd.Flags().StringVar(&a.cluster, "cluster", "", clusterHelp)
	_ = cmd.RegisterFlagCompletionFunc("cluster", o.completeFlag(operate.Names(&clusterv1.ClusterList{})))
	return cmd
}

// statuses returns the status of the add-on in all clusters, or in the one that the user wants.
func (a *addonCall) statuses() ([]addonsv1.ClusterAddonStatus, error) {
	if a.cluster == "" {
		return text.NonNil(a.addon.Status.Clusters), nil
	}
	if status := a.addon.StatusIn(a.cluster); status != nil {
		return []addonsv1.ClusterAddonStatus{*status}, nil
	}
	return nil, fmt.Errorf("add-on %s does not select cluster %q: it selects clusters with the labels %s", a.addon.Name, a.cluster, metav1.FormatLabelSelector(&a.addon.Spec.ClusterSelector))
}

func newAddonStatusCommand(o *Options) *cobra.Command {
	var output text.Output
	cmd := o.addonCommand(&cobra.Command{
		Use:     "status NAME",
		Short:   "Show the status of an add-on in each cluster",
		Example: "  captctl addon status karpenter\n  captctl addon status karpenter --cluster demo -o json",
	}, "Show only this cluster.", func(_ context.Context, a *addonCall) error {
		clusters, err := a.statuses()
		if err != nil {
			return err
		}
		if output.Structured() {
			return output.Print(a.Out, struct {
				addonSummary
				Clusters []addonsv1.ClusterAddonStatus `json:"clusters"`
			}{summaryOf(a.addon), clusters})
		}
		return a.print(clusters)
	})
	addOutput(cmd, &output)
	return cmd
}

// labelHint returns how to label a cluster that a selector selects, after a colon. It is empty if
// no labels alone follow from the selector.
func (o *Options) labelHint(selector *metav1.LabelSelector) string {
	if len(selector.MatchLabels) == 0 || len(selector.MatchExpressions) > 0 {
		return ""
	}
	command := []string{"kubectl", "label", "cluster", "NAME"}
	for _, name := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		command = append(command, shellWord(name+"="+selector.MatchLabels[name]))
	}
	return ": label one with " + o.hints(strings.Join(command, " "))
}

func (a *addonCall) print(clusters []addonsv1.ClusterAddonStatus) error {
	s := summaryOf(a.addon)
	fmt.Fprintf(a.Out, "%s %s, selector %s: ready in %d of %d clusters\n", s.Name, s.Version, s.Selector, s.Ready, s.Matched)
	if len(clusters) == 0 {
		fmt.Fprintf(a.Err, "No cluster is selected%s\n", a.labelHint(&a.addon.Spec.ClusterSelector))
		return nil
	}
	now := time.Now()
	table := text.NewTable("CLUSTER", "STATUS", "SINCE", "FAILED", "MESSAGE")
	for _, c := range clusters {
		colour, failed := text.Cyan, ""
		if ptr.Deref(c.Ready, false) {
			colour = text.Green
		}
		if c.Attempts > 0 {
			colour, failed = text.Red, strconv.Itoa(int(c.Attempts))+"x"
		}
		table.Add(text.Cell{Text: c.Name}, text.Cell{Text: c.Reason, Colour: colour}, text.Cell{Text: text.Age(now, c.Since.Time)}, text.Cell{Text: failed}, text.Cell{Text: message.OneLine(c.Message)})
	}
	return table.Print(a.Out, a.style())
}

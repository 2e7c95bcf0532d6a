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

// addon returns an add-on by name.
func (o *Options) addon(ctx context.Context, name string) (client.WithWatch, *addonsv1.CAPTAddon, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	addon := &addonsv1.CAPTAddon{}
	err = operate.Get(ctx, c, "add-on", client.ObjectKey{Namespace: namespace, Name: name}, addon, &addonsv1.CAPTAddonList{})
	return c, addon, err
}

// statusIn returns the status of an add-on in all clusters, or in the given one.
func statusIn(addon *addonsv1.CAPTAddon, cluster string) ([]addonsv1.ClusterAddonStatus, error) {
	if cluster == "" {
		return text.NonNil(addon.Status.Clusters), nil
	}
	if status := addon.StatusIn(cluster); status != nil {
		return []addonsv1.ClusterAddonStatus{*status}, nil
	}
	return nil, fmt.Errorf("add-on %s does not select cluster %q: it selects clusters with the labels %s", addon.Name, cluster, metav1.FormatLabelSelector(&addon.Spec.ClusterSelector))
}

func newAddonStatusCommand(o *Options) *cobra.Command {
	var output text.Output
	var cluster string
	cmd := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show the status of an add-on in each cluster",
		Example:           "  captctl addon status karpenter\n  captctl addon status karpenter --cluster demo -o json",
		Args:              oneName("add-on"),
		ValidArgsFunction: o.complete(operate.Names(&addonsv1.CAPTAddonList{}), false),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, addon, err := o.addon(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			clusters, err := statusIn(addon, cluster)
			if err != nil {
				return err
			}
			if output.Structured() {
				return output.Print(o.Out, struct {
					addonSummary
					Clusters []addonsv1.ClusterAddonStatus `json:"clusters"`
				}{summaryOf(addon), clusters})
			}
			return o.printAddon(addon, clusters)
		},
	}
	o.addClusterFlag(cmd, &cluster, "Show only this cluster.")
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

func (o *Options) printAddon(addon *addonsv1.CAPTAddon, clusters []addonsv1.ClusterAddonStatus) error {
	s := summaryOf(addon)
	fmt.Fprintf(o.Out, "%s %s, selector %s: ready in %d of %d clusters\n", s.Name, s.Version, s.Selector, s.Ready, s.Matched)
	if len(clusters) == 0 {
		fmt.Fprintf(o.Err, "No cluster is selected%s\n", o.labelHint(&addon.Spec.ClusterSelector))
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
	return table.Print(o.Out, o.style())
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	addonfile "github.com/appthrust/capt/internal/addon/file"
	"github.com/appthrust/capt/internal/client/text"
)

// fieldManager is the field manager of captctl's server-side apply.
const fieldManager = "captctl"

type installOptions struct {
	*Options
	output        text.Output
	from          string
	chart         addonfile.Chart
	insecure      bool
	mirrors       []string
	dryRun, force bool
}

// installed is the result of applying an object.
type installed struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Result is created, changed or unchanged.
	Result string `json:"result"`
	// Clusters are the clusters that an add-on selects.
	Clusters []string `json:"clusters,omitempty"`
	selector *metav1.LabelSelector
}

func newAddonInstallCommand(o *Options) *cobra.Command {
	i := &installOptions{Options: o}
	cmd := &cobra.Command{
		Use:   "install NAME|FILE...",
		Short: "Install or update add-ons",
		Long: `Install or update add-ons: built-in ones by name, others by file. A file contains a
CAPTAddon and the ConfigMaps and Secrets that it needs.

A built-in add-on is a file NAME.yaml in the directory --from, else in $CAPT_ADDONS,
else in the directory addons next to captctl. make addons creates these files.`,
		Example: `  captctl addon install fluxcd karpenter
  captctl addon install karpenter --chart-repository oci://registry.example.com/charts --version 1.14.1
  captctl addon install fluxcd karpenter --mirror ghcr.io=registry.example.com/ghcr --mirror public.ecr.aws=registry.example.com/ecr
  captctl addon install ./my-addon.yaml --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("expected the name or the file of an add-on: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return addonfile.Names(addonfile.Directories(i.from)), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("insecure") {
				i.chart.Insecure = &i.insecure
			}
			return i.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&i.from, "from", "", "Directory with the built-in add-ons.")
	flags.StringVar(&i.chart.Repository, "chart-repository", "", "Chart repository to use instead of the add-on's.")
	flags.StringVar(&i.chart.Version, "version", "", "Chart version to use instead of the add-on's.")
	flags.StringArrayVar(&i.mirrors, "mirror", nil, "Registry to use instead of another for images and charts, as FROM=TO. Can be repeated.")
	flags.BoolVar(&i.insecure, "insecure", false, "Allow plain HTTP to the chart repository.")
	flags.BoolVar(&i.dryRun, "dry-run", false, "Validate the objects on the API server, and change nothing.")
	flags.BoolVar(&i.force, "force-conflicts", false, "Overwrite fields that other field managers own.")
	_ = cmd.MarkFlagDirname("from")
	addOutput(cmd, &i.output)
	return cmd
}

func (i *installOptions) run(ctx context.Context, args []string) error {
	var objects []*unstructured.Unstructured
	dirs := addonfile.Directories(i.from)
	for _, arg := range args {
		path, err := addonfile.Find(arg, dirs)
		if err != nil {
			return err
		}
		read, err := addonfile.Read(path)
		if err != nil {
			return err
		}
		objects = append(objects, read...)
	}
	mirrors, err := addonfile.ParseMirrors(i.mirrors)
	if err != nil {
		return err
	}
	if err := addonfile.UseMirrors(objects, mirrors); err != nil {
		return err
	}
	if err := addonfile.OverrideChart(objects, i.chart); err != nil {
		return err
	}
	c, namespace, err := i.connect()
	if err != nil {
		return err
	}
	results := []installed{}
	for _, obj := range objects {
		if obj.GetNamespace() == "" {
			obj.SetNamespace(namespace)
		}
		result, err := i.apply(ctx, c, obj)
		if err != nil {
			return err
		}
		results = append(results, result)
		if !i.output.Structured() {
			i.report(result)
		}
	}
	if i.output.Structured() {
		return i.output.Print(i.Out, results)
	}
	return nil
}

// apply applies an object and returns the result.
func (i *installOptions) apply(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (installed, error) {
	result := installed{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Result: "created"}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(obj.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), before); client.IgnoreNotFound(err) != nil {
		return result, fmt.Errorf("reading %s %s: %w", result.Kind, result.Name, err)
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager)}
	if i.dryRun {
		options = append(options, client.DryRunAll)
	}
	if i.force {
		options = append(options, client.ForceOwnership)
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), options...)
	if apierrors.IsConflict(err) {
		return result, fmt.Errorf("%s %s: %w: keep the current value, or overwrite it with --force-conflicts", result.Kind, result.Name, err)
	}
	if err != nil {
		return result, fmt.Errorf("applying %s %s: %w", result.Kind, result.Name, err)
	}
	switch {
	case before.GetResourceVersion() == "":
	case equal(before, obj):
		result.Result = "unchanged"
	default:
		result.Result = "changed"
	}
	if !addonfile.IsAddon(obj) {
		return result, nil
	}
	return result, result.findClusters(ctx, c, obj)
}

// equal reports whether two versions of an object have the same content. Their
// resource versions do not show it, because a dry run does not change them.
func equal(a, b *unstructured.Unstructured) bool {
	contentOf := func(obj *unstructured.Unstructured) map[string]any {
		content := obj.DeepCopy().Object
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(content, "metadata", field)
		}
		delete(content, "status")
		return content
	}
	return equality.Semantic.DeepEqual(contentOf(a), contentOf(b))
}

// findClusters sets the clusters that an add-on selects.
func (r *installed) findClusters(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	var addon addonsv1.CAPTAddon
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &addon); err != nil {
		return fmt.Errorf("reading add-on %s: %w", r.Name, err)
	}
	r.selector = &addon.Spec.ClusterSelector
	selector, err := metav1.LabelSelectorAsSelector(&addon.Spec.ClusterSelector)
	if err != nil {
		return fmt.Errorf("parsing the selector of %s: %w", r.Name, err)
	}
	var clusters clusterv1.ClusterList
	if err := c.List(ctx, &clusters, client.InNamespace(r.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("listing the clusters of %s: %w", r.Name, err)
	}
	for _, cluster := range clusters.Items {
		r.Clusters = append(r.Clusters, cluster.Name)
	}
	return nil
}

// report prints the result of applying an object.
func (i *installOptions) report(r installed) {
	suffix := ""
	if i.dryRun {
		suffix = " (dry run)"
	}
	fmt.Fprintf(i.Out, "%s %s %s%s\n", r.Kind, r.Name, r.Result, suffix)
	switch {
	case r.Kind != "CAPTAddon":
	case len(r.Clusters) == 0:
		fmt.Fprintf(i.Out, "  no cluster matches the selector %s%s\n", metav1.FormatLabelSelector(r.selector), i.labelHint(r.selector))
	default:
		fmt.Fprintf(i.Out, "  clusters: %s\n", strings.Join(r.Clusters, ", "))
	}
}

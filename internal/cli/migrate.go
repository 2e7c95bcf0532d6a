package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/cli/migrate"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/local/environment"
)

func newMigrateCommand(o *Options) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "migrate",
		Short:   "Hand over what runs in clusters without stopping it",
		Example: "  captctl migrate karpenter --cluster demo",
	})
	cmd.AddCommand(newMigrateKarpenterCommand(o))
	return cmd
}

// migrateFlags are the flags of captctl migrate karpenter.
type migrateFlags struct {
	cluster, selector, output, addons        string
	all, dryRun, apply, rollback, yes, allow bool
	from, to, flux, addon                    string
	timeout                                  time.Duration
}

func newMigrateKarpenterCommand(o *Options) *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "karpenter (--cluster NAME | --selector LABELS | --all)",
		Short: "Hand Karpenter's release over from Terraform to Flux, and back",
		Long: `Hand Karpenter's release over from Terraform to Flux while it runs: Flux is
started, Terraform forgets the release without destroying it, Flux adopts it. A
plan that would do anything else is not applied. Without --apply or --rollback
nothing is changed: what would happen is shown, and the command ends with 1 if
something blocks. A migration that was interrupted goes on when it is called again.`,
		Example: `  captctl migrate karpenter --cluster demo
  captctl migrate karpenter --cluster demo --apply
  captctl migrate karpenter --selector stage=test --apply --yes
  captctl migrate karpenter --cluster demo --rollback`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return &Exit{Code: 2, Err: err}
			}
			return o.runMigrate(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "name of the cluster")
	flags.StringVarP(&f.selector, "selector", "l", "", "labels of the clusters")
	flags.BoolVar(&f.all, "all", false, "all clusters of the namespace that use one of the two templates")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would happen, and change nothing. This is the default")
	flags.BoolVar(&f.apply, "apply", false, "migrate")
	flags.BoolVar(&f.rollback, "rollback", false, "give the release back to Terraform. With --dry-run only show how")
	addYes(cmd, &f.yes)
	flags.BoolVar(&f.allow, "allow-upgrade", false, "let Flux bring another version of the chart than the one that runs")
	flags.StringVar(&f.from, "from", migrate.DefaultFrom, "workspaceTemplate with the helm_release")
	flags.StringVar(&f.to, "to", migrate.DefaultTo, "workspaceTemplate without it")
	flags.StringVar(&f.flux, "flux-addon", migrate.DefaultFlux, "cAPTAddon that installs Flux")
	flags.StringVar(&f.addon, "addon", migrate.DefaultAddon, "cAPTAddon that installs Karpenter")
	flags.StringVar(&f.addons, "addons", "", "directory with the files of the two add-ons, which are made if they do not exist")
	flags.StringVarP(&f.output, "output", "o", "", "json, or nothing for people.")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long one cluster may take")
	return cmd
}

func (f *migrateFlags) check() error {
	chosen := 0
	for _, set := range []bool{f.cluster != "", f.selector != "", f.all} {
		if set {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return errors.New("say which clusters: --cluster NAME, --selector LABELS or --all")
	case f.apply && f.rollback:
		return errors.New("--apply and --rollback exclude each other")
	case f.apply && f.dryRun:
		return errors.New("--apply and --dry-run exclude each other")
	case f.output != "" && f.output != "json":
		return fmt.Errorf("no output format %q: use json, or leave it out", f.output)
	}
	return nil
}

// changes tells whether anything is to be changed.
func (f *migrateFlags) changes() bool { return (f.apply || f.rollback) && !f.dryRun }

func (o *Options) runMigrate(ctx context.Context, f *migrateFlags) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	namespace, err := o.Namespace()
	if err != nil {
		return err
	}
	m, err := o.migration(c, f)
	if err != nil {
		return err
	}
	keys, err := f.clusters(ctx, c, namespace)
	if err != nil {
		return err
	}
	if !f.changes() {
		return o.previewAll(ctx, m, f, keys)
	}
	if err := o.confirm(f.yes, f.question(keys)); err != nil {
		return err
	}
	return o.migrateAll(ctx, m, f, keys)
}

func (o *Options) migration(c client.Client, f *migrateFlags) (*migrate.Migration, error) {
	matrix, err := versions.Default()
	if err != nil {
		return nil, err
	}
	m := &migrate.Migration{
		Client: c, WorkloadClient: workload.Reach{Scheme: scheme.New()}.Client, Versions: matrix,
		From: f.from, To: f.to, Flux: f.flux, Addon: f.addon, AllowUpgrade: f.allow, Now: time.Now, Progress: o.showStage,
	}
	if f.addons == "" {
		return m, nil
	}
	for _, name := range []string{f.flux, f.addon} {
		objects, err := environment.ReadManifests(filepath.Join(f.addons, name+".yaml"))
		if err != nil {
			return nil, fmt.Errorf("reading the add-on %s, which `make addons` writes: %w", name, err)
		}
		m.Install = append(m.Install, objects...)
	}
	return m, namespaced(m.Install)
}

// namespaced refuses what an add-on's file should not hold.
func namespaced(objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if !slices.Contains([]string{"CAPTAddon", "ConfigMap", "Secret"}, obj.GetKind()) {
			return fmt.Errorf("the files of --addons may hold CAPTAddons, ConfigMaps and Secrets, not %s %s", obj.GetKind(), obj.GetName())
		}
	}
	return nil
}

// clusters are those that the flags choose.
func (f *migrateFlags) clusters(ctx context.Context, c client.Client, namespace string) ([]client.ObjectKey, error) {
	if f.cluster != "" {
		return []client.ObjectKey{{Namespace: namespace, Name: f.cluster}}, nil
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, &Exit{Code: 2, Err: fmt.Errorf("reading --selector: %w", err)}
	}
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var keys []client.ObjectKey
	for i := range list.Items {
		if f.all && list.Items[i].Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
			continue
		}
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no such cluster in namespace %s", namespace)
	}
	return keys, nil
}

// question is what a person is asked before anything changes.
func (f *migrateFlags) question(keys []client.ObjectKey) string {
	what := "Hand Karpenter over to Flux"
	if f.rollback {
		what = "Give Karpenter back to Terraform"
	}
	return fmt.Sprintf("%s in %s?", what, named(keys))
}

func named(keys []client.ObjectKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, key.Name)
	}
	return strings.Join(names, ", ")
}

// previewAll shows what would happen, and ends with 1 if something blocks.
func (o *Options) previewAll(ctx context.Context, m *migrate.Migration, f *migrateFlags, keys []client.ObjectKey) error {
	preview := m.Preview
	if f.rollback {
		preview = m.PreviewRollback
	}
	var reports []*migrate.Report
	for _, key := range keys {
		report, err := preview(ctx, key)
		if err != nil {
			return err
		}
		reports = append(reports, report)
	}
	if err := o.showReports(f, reports); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(r *migrate.Report) bool { return len(r.Blockers) > 0 }) {
		return &Exit{Code: 1, Err: errors.New("")}
	}
	return nil
}

// migrateAll goes through the clusters one after the other and stops at the first
// that fails.
func (o *Options) migrateAll(ctx context.Context, m *migrate.Migration, f *migrateFlags, keys []client.ObjectKey) error {
	act := m.Apply
	if f.rollback {
		act = m.Rollback
	}
	var reports []*migrate.Report
	for i, key := range keys {
		within, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done after %s: call it again to go on", f.timeout))
		report, err := act(within, key)
		cancel()
		if err != nil {
			if left := keys[i+1:]; len(left) > 0 {
				err = fmt.Errorf("%w (not touched: %s)", err, named(left))
			}
			return err
		}
		reports = append(reports, report)
	}
	if f.output == "json" {
		return o.showReports(f, reports)
	}
	return nil
}

// showStage tells of a stage as it begins and ends. It goes to the error stream,
// so that the output stays what was asked for.
func (o *Options) showStage(e migrate.Event) {
	state := "…"
	if e.Done {
		state = "✓"
	}
	fmt.Fprintf(o.Err, "%s  %s %s: %s\n", e.Cluster, state, e.Stage, e.Message)
}

func (o *Options) showReports(f *migrateFlags, reports []*migrate.Report) error {
	if f.output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(reports); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return nil
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(o.Out)
		}
		o.showReport(r)
	}
	return nil
}

// showReport prints what will happen to a cluster.
func (o *Options) showReport(r *migrate.Report) {
	fmt.Fprintf(o.Out, "Cluster %s/%s", r.Namespace, r.Cluster)
	if r.Template != "" {
		fmt.Fprintf(o.Out, ", template %s", r.Template)
	}
	fmt.Fprintln(o.Out)
	if r.Release != nil {
		keeper := "not by Flux"
		if r.Release.ManagedByFlux {
			keeper = "by Flux"
		}
		fmt.Fprintf(o.Out, "  release    %s/%s, chart %s %s, revision %d, %d pods, kept %s\n",
			r.Release.Namespace, r.Release.Name, r.Release.Chart, r.Release.Version, r.Release.Revision, r.Release.Pods, keeper)
	}
	for _, s := range r.Stages {
		if s.Done {
			fmt.Fprintf(o.Out, "  ✓ %-8s done\n", s.Name)
		} else {
			fmt.Fprintf(o.Out, "  → %-8s %s\n", s.Name, s.Text)
		}
	}
	if len(r.DifferingValues) > 0 {
		fmt.Fprintf(o.Out, "  values     that differ from those that run: %s\n", strings.Join(r.DifferingValues, ", "))
	}
	fmt.Fprintf(o.Out, "  restarts   %s\n", restartText(r.Restarts))
	for _, note := range r.Notes {
		fmt.Fprintf(o.Out, "  note       %s\n", note)
	}
	for _, blocker := range r.Blockers {
		fmt.Fprintf(o.Out, "  ✗ blocked  %s\n", blocker)
	}
}

func restartText(r migrate.Restarts) string {
	switch r {
	case migrate.RestartsNo:
		return "none: chart and values stay the same"
	case migrate.RestartsPossible:
		return "possible: chart or values differ"
	default:
		return "not known"
	}
}

package cli

import (
	"context"
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
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/cluster/workload"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/local/environment"
)

func newMigrateCommand(o *Options) *cobra.Command {
	return group(&cobra.Command{
		Use:     "migrate",
		Short:   "Move running software from Terraform to Flux",
		Example: "  captctl migrate karpenter --cluster demo",
	}, newMigrateKarpenterCommand(o))
}

// migrateCall is a call of captctl migrate karpenter.
type migrateCall struct {
	*Options
	cluster, selector, addons                string
	output                                   text.Output
	all, dryRun, apply, rollback, yes, allow bool
	from, to, flux, addon                    string
	timeout                                  time.Duration
}

func newMigrateKarpenterCommand(o *Options) *cobra.Command {
	f := &migrateCall{Options: o}
	cmd := &cobra.Command{
		Use:   "karpenter (--cluster NAME | --selector LABELS | --all)",
		Short: "Move Karpenter's Helm release from Terraform to Flux, or back",
		Long: `Move the management of Karpenter's running Helm release from Terraform to Flux: CAPT
installs Flux, Terraform removes the release from its state without destroying it,
and Flux adopts it. A plan that would do anything else is not applied.

Without --apply or --rollback the command only shows what it would do, and its exit
code is 1 if something blocks the migration. Run the command again to continue an
interrupted migration.`,
		Example: `  captctl migrate karpenter --cluster demo
  captctl migrate karpenter --cluster demo --apply
  captctl migrate karpenter --selector stage=test --apply --yes
  captctl migrate karpenter --cluster demo --rollback`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "Name of the cluster.")
	flags.StringVarP(&f.selector, "selector", "l", "", "Label selector of the clusters.")
	flags.BoolVar(&f.all, "all", false, "All clusters of the namespace that have a CAPTControlPlane.")
	flags.BoolVar(&f.dryRun, "dry-run", false, "Show what would happen, and change nothing. This is the default.")
	flags.BoolVar(&f.apply, "apply", false, "Migrate the clusters.")
	flags.BoolVar(&f.rollback, "rollback", false, "Move the release back to Terraform. With --dry-run, only show how.")
	addYes(cmd, &f.yes)
	flags.BoolVar(&f.allow, "allow-upgrade", false, "Allow Flux to install another chart version than the running one.")
	flags.StringVar(&f.from, "from", migrate.DefaultFrom, "WorkspaceTemplate with the helm_release.")
	flags.StringVar(&f.to, "to", migrate.DefaultTo, "WorkspaceTemplate without the helm_release.")
	flags.StringVar(&f.flux, "flux-addon", migrate.DefaultFlux, "CAPTAddon that installs Flux.")
	flags.StringVar(&f.addon, "addon", migrate.DefaultAddon, "CAPTAddon that installs Karpenter.")
	flags.StringVar(&f.addons, "addons", "", "Directory with the manifests of the two add-ons, which are created if they do not exist.")
	addFormat(cmd, &f.output, "json")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Minute, "Time limit for each cluster.")
	cmd.MarkFlagsOneRequired("cluster", "selector", "all")
	cmd.MarkFlagsMutuallyExclusive("cluster", "selector", "all")
	cmd.MarkFlagsMutuallyExclusive("apply", "rollback")
	cmd.MarkFlagsMutuallyExclusive("apply", "dry-run")
	return cmd
}

// changes reports whether the command changes anything.
func (f *migrateCall) changes() bool { return (f.apply || f.rollback) && !f.dryRun }

func (f *migrateCall) run(ctx context.Context) error {
	c, namespace, err := f.connect()
	if err != nil {
		return err
	}
	m, err := f.build(c)
	if err != nil {
		return err
	}
	keys, err := f.clusters(ctx, c, namespace)
	if err != nil {
		return err
	}
	if !f.changes() {
		return f.previewAll(ctx, m, keys)
	}
	if err := f.confirm(ctx, f.yes, f.question(keys)); err != nil {
		return err
	}
	return f.migrateAll(ctx, m, keys)
}

// build returns the migration that the flags describe.
func (f *migrateCall) build(c client.Client) (*migrate.Migration, error) {
	matrix, err := versions.Default()
	if err != nil {
		return nil, err
	}
	m := &migrate.Migration{
		Client: c, WorkloadClient: workload.Connector{Scheme: scheme.New()}.Client, Versions: matrix,
		From: f.from, To: f.to, Flux: f.flux, Addon: f.addon, AllowUpgrade: f.allow, Now: time.Now, Progress: f.showStage,
	}
	if f.addons == "" {
		return m, nil
	}
	for _, name := range []string{f.flux, f.addon} {
		objects, err := environment.ReadManifests(filepath.Join(f.addons, name+".yaml"))
		if err != nil {
			return nil, fmt.Errorf("reading add-on %s (make addons creates it): %w", name, err)
		}
		m.Install = append(m.Install, objects...)
	}
	return m, checkAddonFiles(m.Install)
}

// checkAddonFiles returns an error for objects that do not belong to an add-on.
func checkAddonFiles(objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if !slices.Contains([]string{"CAPTAddon", "ConfigMap", "Secret"}, obj.GetKind()) {
			return fmt.Errorf("the files of --addons may contain CAPTAddons, ConfigMaps and Secrets, but not %s %s", obj.GetKind(), obj.GetName())
		}
	}
	return nil
}

// clusters returns the clusters that the flags select.
func (f *migrateCall) clusters(ctx context.Context, c client.Client, namespace string) ([]client.ObjectKey, error) {
	if f.cluster != "" {
		return []client.ObjectKey{{Namespace: namespace, Name: f.cluster}}, nil
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, &Exit{Code: 2, Err: fmt.Errorf("parsing --selector: %w", err)}
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
		return nil, fmt.Errorf("no matching cluster in namespace %s", namespace)
	}
	return keys, nil
}

// question returns the question to ask before anything changes.
func (f *migrateCall) question(keys []client.ObjectKey) string {
	action := "Move Karpenter to Flux"
	if f.rollback {
		action = "Move Karpenter back to Terraform"
	}
	return fmt.Sprintf("%s in %s?", action, joinNames(keys))
}

// joinNames returns the names of clusters in one line.
func joinNames(keys []client.ObjectKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, key.Name)
	}
	return strings.Join(names, ", ")
}

// previewAll shows what would happen. The exit code is 1 if a migration is blocked.
func (f *migrateCall) previewAll(ctx context.Context, m *migrate.Migration, keys []client.ObjectKey) error {
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
	if err := f.showReports(reports); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(r *migrate.Report) bool { return len(r.Blockers) > 0 }) {
		return &Exit{Code: 1}
	}
	return nil
}

// migrateAll migrates the clusters one after the other, and stops at the first
// failure.
func (f *migrateCall) migrateAll(ctx context.Context, m *migrate.Migration, keys []client.ObjectKey) error {
	migrateCluster := m.Apply
	if f.rollback {
		migrateCluster = m.Rollback
	}
	var reports []*migrate.Report
	for i, key := range keys {
		limited, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not finished after %s: run the command again to continue", f.timeout))
		report, err := migrateCluster(limited, key)
		cancel()
		if err != nil {
			if left := keys[i+1:]; len(left) > 0 {
				err = fmt.Errorf("%w (not migrated: %s)", err, joinNames(left))
			}
			return err
		}
		reports = append(reports, report)
	}
	if f.output == "json" {
		return f.showReports(reports)
	}
	return nil
}

// showStage prints the start and the end of a stage to stderr: stdout is for the
// reports.
func (f *migrateCall) showStage(e migrate.Event) {
	state := "…"
	if e.Done {
		state = "✓"
	}
	fmt.Fprintf(f.Err, "%s  %s %s: %s\n", e.Cluster, state, e.Stage, e.Message)
}

// showReports prints the reports of all clusters.
func (f *migrateCall) showReports(reports []*migrate.Report) error {
	if f.output == "json" {
		return text.PrintJSON(f.Out, reports)
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(f.Out)
		}
		f.showReport(r)
	}
	return nil
}

// showReport prints the report of a cluster as text.
func (f *migrateCall) showReport(r *migrate.Report) {
	fmt.Fprintf(f.Out, "Cluster %s/%s", r.Namespace, r.Cluster)
	if r.Template != "" {
		fmt.Fprintf(f.Out, ", template %s", r.Template)
	}
	fmt.Fprintln(f.Out)
	if r.Release != nil {
		manager := "not managed by Flux"
		if r.Release.ManagedByFlux {
			manager = "managed by Flux"
		}
		fmt.Fprintf(f.Out, "  release    %s/%s, chart %s %s, revision %d, %s, %s\n",
			r.Release.Namespace, r.Release.Name, r.Release.Chart, r.Release.Version, r.Release.Revision, text.Count(r.Release.Pods, "pod"), manager)
	}
	for _, s := range r.Stages {
		if s.Done {
			fmt.Fprintf(f.Out, "  ✓ %-8s done\n", s.Name)
		} else {
			fmt.Fprintf(f.Out, "  → %-8s %s\n", s.Name, s.Text)
		}
	}
	if len(r.DifferingValues) > 0 {
		fmt.Fprintf(f.Out, "  values     different from the running release: %s\n", strings.Join(r.DifferingValues, ", "))
	}
	fmt.Fprintf(f.Out, "  restarts   %s\n", restartText(r.Restarts))
	for _, note := range r.Notes {
		fmt.Fprintf(f.Out, "  note       %s\n", note)
	}
	for _, blocker := range r.Blockers {
		fmt.Fprintf(f.Out, "  ✗ blocked  %s\n", blocker)
	}
}

// restartText describes the restarts of Karpenter's pods.
func restartText(r migrate.Restarts) string {
	switch r {
	case migrate.RestartsNo:
		return "none: chart and values do not change"
	case migrate.RestartsPossible:
		return "possible: chart or values change"
	default:
		return "unknown"
	}
}

package manager

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/controllers/captaddon"
)

// setupAddons adds the controller of add-ons.
func setupAddons(ctx context.Context, mgr ctrl.Manager, o *Options, objects cache.Cache, reader client.Reader, clusters clustercache.ClusterCache, matrix *versions.Matrix) error {
	var known captaddon.Charts
	if o.ReadCharts {
		known = charts{cache: chart.NewCache(chart.Fetcher{Policy: o.Network.charts(), MaxIndex: maxChartIndex, Timeout: maxChartFetch}, clock.RealClock{})}
	}
	return adding("CAPTAddon", (&captaddon.Reconciler{
		Client: mgr.GetClient(), Live: reader, Metadata: objects, Clusters: clusters, Grants: o.grants(mgr), Versions: matrix, Charts: known, ChartHosts: o.Network.charts(),
		WatchFilter: o.WatchFilter, Recorder: mgr.GetEventRecorder("capt-addon"), Now: time.Now,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: o.Concurrency}))
}

// charts reads charts from the repositories that add-ons name.
type charts struct{ cache *chart.Cache }

// chartTimeout is how long a reconcile of an add-on waits for its chart.
const chartTimeout = 5 * time.Second

// Limits of the repositories that add-ons name. Charts of larger or slower ones are not
// checked.
const (
	maxChartIndex = 16 << 20
	maxChartFetch = 20 * time.Second
)

// CheckPath returns an error if a chart does not use the value at path. It
// returns nil for a chart that cannot be read: Flux may reach repositories that
// this manager does not.
func (c charts) CheckPath(ctx context.Context, namespace string, from addonsv1.ChartSource, path string) error {
	segments, err := targetpath.Parse(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, chartTimeout)
	defer cancel()
	read, err := c.cache.FetchFor(ctx, namespace, from.Repository, from.Name, from.Version, from.Insecure != nil && *from.Insecure)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Chart cannot be read, so its values are not checked", "chart", from.Name, "version", from.Version, "error", err.Error())
		return nil
	}
	return read.CheckPath(segments)
}

// workloadSelectors restrict the caches of workload clusters. They hold only what the
// health of add-ons is computed from: digests of the Secrets that CAPT created, and the
// status of other objects.
func workloadSelectors() map[client.Object]cache.ByObject {
	hasAddon, err := labels.NewRequirement(addonsv1.AddonLabel, selection.Exists, nil)
	utilruntime.Must(err)
	return map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.NewSelector().Add(*hasAddon)}}
}

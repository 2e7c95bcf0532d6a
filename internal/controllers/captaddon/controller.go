// Package captaddon installs add-ons in clusters. For each cluster that an add-on
// selects it renders a ClusterResourceSet, observes the objects in the workload
// cluster, and repairs drift.
package captaddon

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusteraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/grant"
	"github.com/appthrust/capt/internal/kubernetes/dial"
	"github.com/appthrust/capt/internal/kubernetes/object"
	"github.com/appthrust/capt/internal/reconcile"
)

// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons/status,verbs=patch
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=captaddons/finalizers,verbs=update
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=clusterresourcesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=clusterresourcesetbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captreferencegrants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Versions checks which versions work together.
type Versions interface {
	// CheckAddon returns an error unless an add-on supports a Kubernetes version.
	CheckAddon(addon *addonsv1.CAPTAddon, kubernetes string) error
	// CheckDependency returns an error if an add-on that another one depends on is too
	// old for it.
	CheckDependency(addon, dependency *addonsv1.CAPTAddon) error
}

// Charts checks the paths of chart values. CheckPath may block for a download, once
// per chart, which does not delay other namespaces. A chart that cannot be read passes.
type Charts interface {
	CheckPath(ctx context.Context, namespace string, chart addonsv1.ChartSource, targetPath string) error
}

// Reconciler installs add-ons.
type Reconciler struct {
	Client client.Client
	// Live reads Secrets and ConfigMaps without a cache.
	Live client.Reader
	// Metadata has the resource versions of Secrets and ConfigMaps.
	Metadata cache.Cache
	// Clusters are the connections to the workload clusters.
	Clusters clustercache.ClusterCache
	// Grants decides which add-ons clusters of other namespaces get.
	Grants *grant.Checker
	// Versions, if set, is checked before anything is applied.
	Versions Versions
	// Charts, if set, checks the values of Helm releases.
	Charts Charts
	// ChartHosts, if set, limits the hosts of charts.
	ChartHosts *dial.Policy
	// WatchFilter restricts the controller to objects with the label's value.
	WatchFilter string
	Recorder    events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	// noGrants and noControlPlanes are set if the API server has no CAPTReferenceGrants or no
	// CAPTControlPlanes.
	noGrants, noControlPlanes bool
	watcher                   clustercache.SourceWatcher[ctrl.Request]
	// renderings has the last *rendering of each renderingKey.
	renderings sync.Map
}

const (
	// probeFailure is how long a workload cluster may be unreachable before its
	// add-ons count as not ready.
	probeFailure = 25 * time.Second
	// probeInterval is the interval of the health probes of workload clusters.
	probeInterval = 10 * time.Second
)

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	registerMetrics()
	// Other providers have these kinds. They may not be installed, or be older than this one.
	var err error
	if r.noGrants, err = isMissing(mgr, infrav1.GroupVersion.WithKind("CAPTReferenceGrant")); err != nil {
		return err
	}
	if r.noControlPlanes, err = isMissing(mgr, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")); err != nil {
		return err
	}
	controllers := ctrl.NewControllerManagedBy(mgr)
	if !r.noGrants {
		controllers.Watches(&infrav1.CAPTReferenceGrant{}, handler.EnqueueRequestsFromMapFunc(r.addonsOfGrant), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	if !r.noControlPlanes {
		controllers.Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.addonsOfControlPlane))
	}
	built, err := controllers.
		For(&addonsv1.CAPTAddon{}).
		Owns(&clusteraddonsv1.ClusterResourceSet{}).
		Owns(&corev1.Secret{}).
		Watches(&addonsv1.CAPTAddon{}, handler.EnqueueRequestsFromMapFunc(r.addonsOfAddon)).
		Watches(&addonsv1.CAPTAddon{}, handler.EnqueueRequestsFromMapFunc(r.copiesOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.addonsOfCluster)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.lentToCluster), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&clusteraddonsv1.ClusterResourceSetBinding{}, handler.EnqueueRequestsFromMapFunc(r.addonsOfBinding)).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(object.Metadata(secretKind)), handler.EnqueueRequestsFromMapFunc(r.addonsOfSource))).
		WatchesRawSource(source.Kind(r.Metadata, client.Object(object.Metadata(configMapKind)), handler.EnqueueRequestsFromMapFunc(r.addonsOfSource))).
		WatchesRawSource(r.Clusters.GetClusterSource("captaddon", r.addonsOfCluster, clustercache.WatchForProbeFailure(probeFailure))).
		WithOptions(options).
		Named("captaddon").
		Build(r.frame())
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	r.watcher = built
	return nil
}

// isMissing reports whether the API server does not have a kind.
func isMissing(mgr ctrl.Manager, gvk schema.GroupVersionKind) (bool, error) {
	_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up kind %s: %w", gvk.Kind, err)
	}
	return false, nil
}

var secretKind, configMapKind = corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap")

// frame returns the steps of the controller.
func (r *Reconciler) frame() *reconcile.Frame[*addonsv1.CAPTAddon, scope] {
	always := func(*scope) bool { return true }
	return &reconcile.Frame[*addonsv1.CAPTAddon, scope]{
		Client:      r.Client,
		WatchFilter: r.WatchFilter,
		Finalizer:   addonsv1.CAPTAddonFinalizer,
		Scope:       r.scope,
		Steps: []reconcile.Step[scope]{
			{Run: r.lend},
			{Run: r.withhold},
			{Condition: addonsv1.RenderedCondition, Run: r.render, ContinueIf: always},
			{Condition: addonsv1.ClustersReadyCondition, Run: r.install, Message: installedMessage, RequeueAfter: func(s *scope) time.Duration { return s.requeueAfter }},
		},
		Delete: []reconcile.Step[scope]{
			{Condition: addonsv1.RemovedCondition, Run: r.uninstall},
			{Run: r.cleanUp},
		},
		Gone:         r.forget,
		Idle:         deleteGauges,
		OnTransition: reconcile.Announce[*addonsv1.CAPTAddon, scope](r.Recorder, transitionEvents),
	}
}

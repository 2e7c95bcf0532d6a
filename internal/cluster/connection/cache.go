// Package connection keeps the connections to workload clusters. It implements the interface
// of Cluster API's ClusterCache, which makes its own transport from the kubeconfig: that of CAPT
// dials allowed addresses only, limits answers, and renews tokens while watches last. A cluster
// that comes back is connected within seconds.
package connection

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/appthrust/capt/internal/cluster/workload"
)

// Options are the settings of a Cache.
type Options struct {
	// Clusters reads Clusters.
	Clusters client.Reader
	// Secrets reads the Secrets of kubeconfigs.
	Secrets client.Reader
	// Metadata reads the metadata of these Secrets from a cache.
	Metadata client.Reader
	// Connector connects to API servers.
	Connector workload.Connector
	// Scheme is that of the clients.
	Scheme *runtime.Scheme
	// WatchFilter restricts the connections to Clusters with the label's value.
	WatchFilter string
	// Filter, if set, reports whether to connect to a Cluster.
	Filter func(*clusterv1.Cluster) bool
	// Transform, if set, reduces the objects in the caches.
	Transform toolscache.TransformFunc
	// ByObject restricts the objects of kinds in the caches.
	ByObject map[client.Object]cache.ByObject
	// Pod is the manager's own pod, and Own the configuration of its API server. The
	// cluster in which the manager runs is reached by it.
	Pod Pod
	Own *rest.Config
	// Now is the clock.
	Now func() time.Time
}

// Cache has the connections to workload clusters. It connects to the clusters that have a
// kubeconfig, and checks regularly that they answer.
type Cache struct {
	options Options
	// ctx is that of the watches. It ends with the manager.
	ctx  context.Context //nolint:containedctx // Watches outlive the reconcile that starts them.
	stop context.CancelFunc

	mu        sync.RWMutex
	accessors map[client.ObjectKey]*accessor

	sourcesMu sync.Mutex
	sources   []*clusterSource
}

var _ clustercache.ClusterCache = &Cache{}

// SetupWithManager adds a Cache to a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options, options controller.Options) (*Cache, error) {
	c := newCache(ctx, o)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clustercache").
		For(&clusterv1.Cluster{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), o.WatchFilter)).
		Complete(c)
	if err != nil {
		return nil, fmt.Errorf("setting up the controller: %w", err)
	}
	// An API server that stops waits for its watches.
	return c, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		c.stop()
		return nil
	}))
}

func newCache(ctx context.Context, o Options) *Cache {
	c := &Cache{options: o, accessors: map[client.ObjectKey]*accessor{}}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

// GetClient returns a client that reads from a cache.
func (c *Cache) GetClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	opened, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return opened.cached, nil
}

// GetReader returns a reader of a cache.
func (c *Cache) GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, cluster)
}

// GetUncachedClient returns a client that reads from the API server.
func (c *Cache) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	opened, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return opened.live, nil
}

// GetRESTConfig returns the configuration of a connection.
func (c *Cache) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	opened, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return opened.config, nil
}

// GetHealthCheckingState returns the results of the probes of a cluster.
func (c *Cache) GetHealthCheckingState(_ context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState {
	a := c.accessor(cluster)
	if a == nil {
		return clustercache.HealthCheckingState{}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.health
}

// Watch adds a watch, once for each connection. It does not block.
func (c *Cache) Watch(_ context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error {
	a := c.accessor(cluster)
	if a == nil {
		return notConnected(cluster)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		return notConnected(cluster)
	}
	if a.open.watches[watcher.Name()] {
		return nil
	}
	if err := watcher.Watch(a.open.objects); err != nil {
		return fmt.Errorf("watching %T: %w", watcher.Object(), err)
	}
	a.open.watches[watcher.Name()] = true
	return nil
}

// GetClusterSource returns a source that triggers a controller when a cluster is
// connected or disconnected, and with WatchForProbeFailure when it does not answer.
func (c *Cache) GetClusterSource(_ string, requests func(context.Context, client.Object) []ctrl.Request, opts ...clustercache.GetClusterSourceOption) source.Source {
	created := newClusterSource(opts)
	c.sourcesMu.Lock()
	defer c.sourcesMu.Unlock()
	c.sources = append(c.sources, created)
	return created.source(requests)
}

// connected returns the connection to a cluster.
func (c *Cache) connected(cluster client.ObjectKey) (*connection, error) {
	if a := c.accessor(cluster); a != nil {
		a.mu.RLock()
		defer a.mu.RUnlock()
		if a.open != nil {
			return a.open, nil
		}
	}
	return nil, notConnected(cluster)
}

func notConnected(cluster client.ObjectKey) error {
	return fmt.Errorf("cluster %s: %w", cluster, clustercache.ErrClusterNotConnected)
}

// accessor returns what is known about a cluster, or nil.
func (c *Cache) accessor(cluster client.ObjectKey) *accessor {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.accessors[cluster]
}

// addAccessor returns what is known about a cluster.
func (c *Cache) addAccessor(cluster client.ObjectKey) *accessor {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accessors[cluster]
	if a == nil {
		a = &accessor{}
		c.accessors[cluster] = a
	}
	return a
}

// forget disconnects a cluster that does not exist anymore.
func (c *Cache) forget(cluster client.ObjectKey) {
	if a := c.accessor(cluster); a != nil {
		a.disconnect(c.options.Now())
	}
	c.mu.Lock()
	delete(c.accessors, cluster)
	c.mu.Unlock()
	c.sourcesMu.Lock()
	sources := slices.Clone(c.sources)
	c.sourcesMu.Unlock()
	for _, s := range sources {
		s.forget(cluster)
	}
	forgetMetrics(cluster)
}

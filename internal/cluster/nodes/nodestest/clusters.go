package nodestest

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clusters adds a cache of connections to workload clusters to the manager. It
// closes them when the manager stops, because an API server waits for its watches
// before it stops.
func Clusters(ctx context.Context, mgr ctrl.Manager) (clustercache.ClusterCache, error) {
	ctrl.SetLogger(klog.Background())
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: mgr.GetAPIReader(), Client: clustercache.ClientOptions{UserAgent: "capt-test"},
	}, controller.Options{})
	if err != nil {
		return nil, err
	}
	cache, ok := clusters.(interface{ Shutdown() })
	if !ok {
		return nil, fmt.Errorf("%T has no Shutdown", clusters)
	}
	return clusters, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		cache.Shutdown()
		return nil
	}))
}

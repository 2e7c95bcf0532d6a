package nodestest

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/appthrust/capt/internal/cluster/connection"
	"github.com/appthrust/capt/internal/cluster/workload"
)

// Clusters adds a cache of connections to workload clusters to the manager.
func Clusters(ctx context.Context, mgr ctrl.Manager) (clustercache.ClusterCache, error) {
	ctrl.SetLogger(klog.Background())
	return connection.SetupWithManager(ctx, mgr, connection.Options{
		Clusters: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Metadata: mgr.GetAPIReader(), Connector: workload.Connector{}, Scheme: mgr.GetScheme(), Now: time.Now,
	}, controller.Options{})
}

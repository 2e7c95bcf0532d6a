package connection

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics are those of Cluster API's ClusterCache, whose package registers them.
var (
	probeResult = registered(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capi_cluster_cache_healthcheck", Help: "Result of the last clustercache healthcheck for a cluster.",
	}, []string{"cluster_name", "cluster_namespace"}))
	probeResults = registered(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_cluster_cache_healthchecks_total", Help: "Results of all clustercache healthchecks.",
	}, []string{"cluster_name", "cluster_namespace", "status"}))
	connectionUp = registered(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capi_cluster_cache_connection_up", Help: "Whether the connection to the cluster is up.",
	}, []string{"cluster_name", "cluster_namespace"}))
)

// registered returns the collector that is registered with the same descriptor.
func registered[C prometheus.Collector](collector C) C {
	err := metrics.Registry.Register(collector)
	if existing := (prometheus.AlreadyRegisteredError{}); errors.As(err, &existing) {
		if found, ok := existing.ExistingCollector.(C); ok {
			return found
		}
	}
	return collector
}

func reportConnection(cluster client.ObjectKey, up bool) {
	connectionUp.WithLabelValues(cluster.Name, cluster.Namespace).Set(number(up))
}

func reportProbe(cluster client.ObjectKey, succeeded bool) {
	probeResult.WithLabelValues(cluster.Name, cluster.Namespace).Set(number(succeeded))
	status := "error"
	if succeeded {
		status = "success"
	}
	probeResults.WithLabelValues(cluster.Name, cluster.Namespace, status).Inc()
}

func forgetMetrics(cluster client.ObjectKey) {
	connectionUp.DeleteLabelValues(cluster.Name, cluster.Namespace)
	probeResult.DeleteLabelValues(cluster.Name, cluster.Namespace)
	probeResults.DeletePartialMatch(prometheus.Labels{"cluster_name": cluster.Name, "cluster_namespace": cluster.Namespace})
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

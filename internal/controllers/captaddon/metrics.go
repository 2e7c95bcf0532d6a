package captaddon

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	clusters = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_clusters", Help: "Number of clusters that an add-on selects, by readiness.",
	}, []string{"namespace", "addon", "ready"})
	failing = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_failing", Help: "1 for each cluster in which an add-on fails, by reason.",
	}, []string{"namespace", "addon", "cluster", "reason"})
	failuresTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_addon_failures_total", Help: "Number of failures of an add-on in a cluster, by reason.",
	}, []string{"namespace", "addon", "reason"})

	register sync.Once
)

func registerMetrics() {
	register.Do(func() { metrics.Registry.MustRegister(clusters, failing, failuresTotal) })
}

// updateMetrics sets the gauges of an add-on.
func updateMetrics(s *scope) {
	namespace, name := s.addon.Namespace, s.addon.Name
	clusters.WithLabelValues(namespace, name, "true").Set(float64(*s.addon.Status.Ready))
	clusters.WithLabelValues(namespace, name, "false").Set(float64(*s.addon.Status.Matched - *s.addon.Status.Ready))
	failing.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "addon": name})
	for _, in := range s.installations {
		if !in.removed && failures[in.current.Reason] {
			failing.WithLabelValues(namespace, name, in.name, in.current.Reason).Set(1)
		}
	}
}

// countFailure counts the reason of a cluster if it is a failure.
func countFailure(s *scope, in *installation) {
	if failures[in.current.Reason] {
		failuresTotal.WithLabelValues(s.addon.Namespace, s.addon.Name, in.current.Reason).Inc()
	}
}

// deleteMetrics deletes the metrics of an add-on.
func deleteMetrics(s *scope) {
	labels := prometheus.Labels{"namespace": s.addon.Namespace, "addon": s.addon.Name}
	clusters.DeletePartialMatch(labels)
	failing.DeletePartialMatch(labels)
	failuresTotal.DeletePartialMatch(labels)
}

package captaddon

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	clusters = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_clusters", Help: "Clusters that an add-on selects, by whether it is ready there.",
	}, []string{"namespace", "addon", "ready"})
	failing = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_failing", Help: "1 for each cluster where an add-on has failed, by the reason.",
	}, []string{"namespace", "addon", "cluster", "reason"})
	failedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_addon_failures_total", Help: "How often an add-on failed in a cluster, by the reason.",
	}, []string{"namespace", "addon", "reason"})

	register sync.Once
)

func registerMetrics() {
	register.Do(func() { metrics.Registry.MustRegister(clusters, failing, failedTotal) })
}

// count shows where the clusters of an add-on stand.
func count(s *scope) {
	namespace, name := s.addon.Namespace, s.addon.Name
	clusters.WithLabelValues(namespace, name, "true").Set(float64(*s.addon.Status.Ready))
	clusters.WithLabelValues(namespace, name, "false").Set(float64(*s.addon.Status.Matched - *s.addon.Status.Ready))
	failing.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "addon": name})
	for _, st := range s.standings {
		if !st.gone && failures[st.is.Reason] {
			failing.WithLabelValues(namespace, name, st.name, st.is.Reason).Set(1)
		}
	}
}

func failed(s *scope, st *standing) {
	failedTotal.WithLabelValues(s.addon.Namespace, s.addon.Name, st.is.Reason).Inc()
}

// uncount removes an add-on that is gone.
func uncount(s *scope) {
	labels := prometheus.Labels{"namespace": s.addon.Namespace, "addon": s.addon.Name}
	clusters.DeletePartialMatch(labels)
	failing.DeletePartialMatch(labels)
	failedTotal.DeletePartialMatch(labels)
}

package captaddon

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
)

var (
	clusters = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_clusters", Help: "Number of clusters that an add-on selects, by readiness.",
	}, []string{"namespace", "addon", "ready"})
	failing = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_failing", Help: "1 for each cluster in which an add-on fails, by reason.",
	}, []string{"namespace", "addon", "cluster", "reason"})
	unready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_addon_unready_timestamp_seconds", Help: "Since when an add-on has not become ready, in the cluster in which it has waited longest. Paused clusters, those that wait for the rollout and those that must not have the add-on do not count.",
	}, []string{"namespace", "addon"})
	failuresTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_addon_failures_total", Help: "Number of failures of an add-on in a cluster, by reason.",
	}, []string{"namespace", "addon", "reason"})

	register sync.Once
)

func registerMetrics() {
	register.Do(func() { metrics.Registry.MustRegister(clusters, failing, unready, failuresTotal) })
}

// updateMetrics sets the gauges of an add-on. A cluster from which it is being removed does not
// count: deletions have a metric of their own.
func updateMetrics(s *scope) {
	namespace, name := s.addon.Namespace, s.addon.Name
	clusters.WithLabelValues(namespace, name, "true").Set(float64(*s.addon.Status.Ready))
	clusters.WithLabelValues(namespace, name, "false").Set(float64(*s.addon.Status.Matched - *s.addon.Status.Ready))
	failing.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "addon": name})
	unready.DeleteLabelValues(namespace, name)
	var oldest time.Time
	for _, in := range s.installations {
		if in.removed || !in.selected {
			continue
		}
		if reason := in.failure(); reason != "" {
			failing.WithLabelValues(namespace, name, in.name, reason).Set(1)
		}
		if since := in.current.WaitingSince; !since.IsZero() && (oldest.IsZero() || since.Time.Before(oldest)) {
			oldest = since.Time
		}
	}
	if !oldest.IsZero() {
		unready.WithLabelValues(namespace, name).Set(float64(oldest.Unix()))
	}
}

// failure returns the reason of a failure, or an empty string. An add-on that was reapplied
// because it had not become ready in time fails until it is ready.
func (in *installation) failure() string {
	switch {
	case addonsv1.IsFailure(in.current.Reason):
		return in.current.Reason
	case in.current.Attempts > 0 && !in.current.UnreadySince.IsZero() && in.current.Reason != addonsv1.ApplyingReason:
		return addonsv1.TimedOutReason
	default:
		return ""
	}
}

// countFailure counts the reason of a cluster if it is a failure.
func countFailure(s *scope, in *installation) {
	if addonsv1.IsFailure(in.current.Reason) {
		failuresTotal.WithLabelValues(s.addon.Namespace, s.addon.Name, in.current.Reason).Inc()
	}
}

// deleteMetrics deletes the metrics of an add-on.
func deleteMetrics(addon client.ObjectKey) {
	deleteGauges(addon)
	failuresTotal.DeletePartialMatch(metricLabels(addon))
}

// deleteGauges deletes the gauges of an add-on that is not reconciled. They would stay as they
// are, and an alert with them.
func deleteGauges(addon client.ObjectKey) {
	labels := metricLabels(addon)
	clusters.DeletePartialMatch(labels)
	failing.DeletePartialMatch(labels)
	unready.DeletePartialMatch(labels)
}

func metricLabels(addon client.ObjectKey) prometheus.Labels {
	return prometheus.Labels{"namespace": addon.Namespace, "addon": addon.Name}
}

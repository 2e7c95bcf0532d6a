package workspacetemplateapply

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
)

var (
	runDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capt_run_duration_seconds", Help: "How long runs took, by operation and outcome.",
		Buckets: []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
	}, []string{"operation", "outcome"})
	runFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_run_failures_total", Help: "Runs that failed, by class.",
	}, []string{"class"})
	queueTime = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "capt_run_queue_seconds", Help: "How long runs waited for a free slot.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	})
	drifted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_drifted_resources", Help: "Resources that differ from the state.",
	}, []string{"namespace", "name"})

	inFlight = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capt_runs_in_flight", Help: "Runs that go on.",
	}, func() float64 { running, _ := queueLen(); return float64(running) })
	queued = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capt_runs_queued", Help: "Runs that wait for a free slot.",
	}, func() float64 { _, waiting := queueLen(); return float64(waiting) })

	current struct {
		sync.Mutex
		queue *queue.Queue
	}
	register sync.Once
)

// registerMetrics makes the metrics those of the given queue.
func registerMetrics(q *queue.Queue) {
	register.Do(func() {
		metrics.Registry.MustRegister(runDuration, runFailures, queueTime, drifted, inFlight, queued)
	})
	current.Lock()
	defer current.Unlock()
	current.queue = q
}

func queueLen() (running, waiting int) {
	current.Lock()
	defer current.Unlock()
	if current.queue == nil {
		return 0, 0
	}
	return current.queue.Len()
}

func observeRun(run *runRecord, result *terraform.Result) {
	runDuration.WithLabelValues(string(run.operation()), string(result.Outcome)).Observe(result.FinishedAt.Sub(result.StartedAt).Seconds())
	if result.Class != "" {
		runFailures.WithLabelValues(string(result.Class)).Inc()
	}
}

func observeQueued(position queue.Position, now time.Time) {
	if !position.Since.IsZero() {
		queueTime.Observe(now.Sub(position.Since).Seconds())
	}
}

func observeDrift(s *scope, drift *infrav1.DriftStatus) {
	if drift != nil {
		drifted.WithLabelValues(s.apply.Namespace, s.apply.Name).Set(float64(len(drift.Resources)))
	}
}

func forgetMetrics(s *scope) { drifted.DeleteLabelValues(s.apply.Namespace, s.apply.Name) }

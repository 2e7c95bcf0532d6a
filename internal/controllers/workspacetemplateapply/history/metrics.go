package history

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
)

var (
	runDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capt_run_duration_seconds", Help: "Duration of runs, by operation and outcome.",
		Buckets: []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
	}, []string{"operation", "outcome"})
	runFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_run_failures_total", Help: "Number of failed runs, by class, without drift checks.",
	}, []string{"class"})
	policyViolations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_policy_violations_total", Help: "Number of plans that violated a rule of a policy, by policy and action.",
	}, []string{"kind", "policy", "action"})
	queueTime = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "capt_run_queue_seconds", Help: "Time that runs waited for a free slot.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	})

	inFlight = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capt_runs_in_flight", Help: "Number of running runs.",
	}, func() float64 {
		return fromQueue(func(q *queue.Queue) float64 { running, _ := q.Len(); return float64(running) })
	})
	queued = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capt_runs_queued", Help: "Number of runs that wait for a free slot.",
	}, func() float64 {
		return fromQueue(func(q *queue.Queue) float64 { _, waiting := q.Len(); return float64(waiting) })
	})
	longestWait = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capt_oldest_queued_run_seconds", Help: "Time that the run that arrived first has been waiting for a free slot, or 0.",
	}, func() float64 { return fromQueue(func(q *queue.Queue) float64 { return q.LongestWait().Seconds() }) })

	current struct {
		sync.Mutex
		queue *queue.Queue
	}
	register sync.Once
)

// RegisterMetrics registers the metrics once and sets the queue that they report.
func RegisterMetrics(q *queue.Queue) {
	register.Do(func() {
		metrics.Registry.MustRegister(runDuration, runFailures, policyViolations, queueTime, inFlight, queued, longestWait)
		for _, class := range []terraform.Class{terraform.ClassTransient, terraform.ClassLockHeld, terraform.ClassTerminal} {
			runFailures.WithLabelValues(string(class))
		}
	})
	current.Lock()
	defer current.Unlock()
	current.queue = q
}

// fromQueue returns a value of the queue, or 0 without one.
func fromQueue(value func(*queue.Queue) float64) float64 {
	current.Lock()
	defer current.Unlock()
	if current.queue == nil {
		return 0
	}
	return value(current.queue)
}

// MaxObserved limits the duration of a run, which the run reports itself. Neither a negative
// nor a huge one may distort the sum of all runs.
const MaxObserved = 48 * time.Hour

// ObserveRun counts a run that has ended. A run that a user canceled, or that was withdrawn
// before its start, has not failed. Failed drift checks are not counted as failures: they are
// repeated patiently, and have an alert of their own.
func ObserveRun(run *runs.Run, result *terraform.Result, outcome terraform.Outcome) {
	took := min(max(result.FinishedAt.Sub(result.StartedAt), 0), MaxObserved)
	runDuration.WithLabelValues(string(run.Operation()), string(result.Outcome)).Observe(took.Seconds())
	if result.Class != "" && !result.Withdrawn && outcome != runs.OutcomeCanceled && run.Operation() != terraform.OperationCheckDrift {
		runFailures.WithLabelValues(string(result.Class)).Inc()
	}
}

// ExpectViolations creates the counters of the rules of policies: an increase is visible
// only beside an earlier value, so that an alert would miss the first violation.
func ExpectViolations(policies *terraform.Policies) {
	if policies == nil {
		return
	}
	for _, p := range policies.Policies {
		for _, rule := range p.Rules {
			violationsOf(p.Kind, p.Name, rule.Action)
		}
	}
}

// maxPolicies is the number of policies that have counters of their own, and otherPolicies the
// label of the rest. Counters stay when a policy is deleted.
const (
	maxPolicies   = 1000
	otherPolicies = "(other)"
)

var counted struct {
	sync.Mutex
	policies map[[2]string]bool
}

// violationsOf returns the counter of the rules of a policy with an action.
func violationsOf(kind, policy string, action terraform.PolicyAction) prometheus.Counter {
	counted.Lock()
	defer counted.Unlock()
	if key := [2]string{kind, policy}; !counted.policies[key] {
		if len(counted.policies) == maxPolicies {
			policy = otherPolicies
		} else {
			if counted.policies == nil {
				counted.policies = map[[2]string]bool{}
			}
			counted.policies[key] = true
		}
	}
	return policyViolations.WithLabelValues(kind, policy, string(action))
}

// ObserveQueued observes how long a run has waited for its slot. Since is zero if it did not wait.
func ObserveQueued(since, now time.Time) {
	if !since.IsZero() {
		queueTime.Observe(now.Sub(since).Seconds())
	}
}

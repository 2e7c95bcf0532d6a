package workspacetemplateapply

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
)

// measure returns the value of a metric with the given label values: of a counter
// or gauge, or the number of samples of a histogram. It returns -1 if there is no
// such metric.
func measure(g Gomega, name string, labels ...string) float64 {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if slices.Equal(values, labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func TestObserveRun_countsClassifiedFailures(t *testing.T) {
	g := NewWithT(t)
	registerMetrics(nil)
	run := newScope("hello").startRun(g, decision{operation: terraform.OperationPlan})
	for _, class := range []terraform.Class{"", "measured"} {
		observeRun(run, &terraform.Result{Outcome: "Measured", Class: class, StartedAt: noon, FinishedAt: noon})
	}
	g.Expect(measure(g, "capt_run_duration_seconds", "Plan", "Measured")).To(BeEquivalentTo(2))
	g.Expect(measure(g, "capt_run_failures_total", "measured")).To(BeEquivalentTo(1))
	g.Expect(measure(g, "capt_run_failures_total", "")).To(BeEquivalentTo(-1))
}

func TestObserveQueued_ignoresRunsThatDidNotWait(t *testing.T) {
	g := NewWithT(t)
	registerMetrics(nil)
	before := measure(g, "capt_run_queue_seconds")
	observeQueued(queue.Position{}, noon)
	g.Expect(measure(g, "capt_run_queue_seconds")).To(Equal(before))
	observeQueued(queue.Position{Since: noon}, noon.Add(time.Second))
	g.Expect(measure(g, "capt_run_queue_seconds")).To(Equal(before + 1))
}

func TestObserveDrift_ignoresWorkspacesThatWereNotChecked(t *testing.T) {
	g := NewWithT(t)
	registerMetrics(nil)
	apply := newScope("measured").apply
	drifted := func() float64 { return measure(g, "capt_drifted_resources", "measured", "n") }

	observeDrift(apply)
	g.Expect(drifted()).To(BeEquivalentTo(-1))
	apply.Status.Drift = driftOf(2)
	observeDrift(apply)
	g.Expect(drifted()).To(BeEquivalentTo(2))
	apply.Status.Drift = &infrav1.DriftStatus{}
	observeDrift(apply)
	g.Expect(drifted()).To(BeZero())
	deleteMetrics(apply)
	g.Expect(drifted()).To(BeEquivalentTo(-1))
}

func TestQueueMetrics(t *testing.T) {
	g := NewWithT(t)
	registerMetrics(nil)
	g.Expect(measure(g, "capt_runs_in_flight")).To(BeZero())
	g.Expect(measure(g, "capt_runs_queued")).To(BeZero())
	g.Expect(measure(g, "capt_oldest_queued_run_seconds")).To(BeZero())

	now := noon
	q := queue.New(queue.Limits{Total: 1}, func() time.Time { return now }, func(queue.Key) {})
	registerMetrics(q)
	defer registerMetrics(nil)
	for _, name := range []string{"a", "b", "c"} {
		q.Acquire(queue.Key{Name: name}, queue.Group{})
		g.Expect(measure(g, "capt_oldest_queued_run_seconds") > 0).To(Equal(name == "c"), "the first of them runs")
		now = now.Add(time.Minute)
	}
	g.Expect(measure(g, "capt_oldest_queued_run_seconds")).To(BeEquivalentTo(120))
	g.Expect(measure(g, "capt_runs_in_flight")).To(BeEquivalentTo(1))
	g.Expect(measure(g, "capt_runs_queued")).To(BeEquivalentTo(2))
}

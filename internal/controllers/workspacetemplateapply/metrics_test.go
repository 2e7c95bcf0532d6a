package workspacetemplateapply

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/queue"
	"github.com/appthrust/capt/internal/terraform/record"
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
	history.RegisterMetrics(nil)
	run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationPlan})
	for _, class := range []terraform.Class{"", "measured"} {
		history.ObserveRun(run, &terraform.Result{Outcome: "Measured", Class: class, StartedAt: noon, FinishedAt: noon}, "Measured")
	}
	history.ObserveRun(run, &terraform.Result{Outcome: "Measured", Class: "measured", StartedAt: noon, FinishedAt: noon}, runs.OutcomeCanceled)
	history.ObserveRun(run, &terraform.Result{Outcome: "Measured", Class: "measured", StartedAt: noon, FinishedAt: noon, Withdrawn: true}, "Measured")
	g.Expect(measure(g, "capt_run_duration_seconds", "Plan", "Measured")).To(BeEquivalentTo(4))
	g.Expect(measure(g, "capt_run_failures_total", "measured")).To(BeEquivalentTo(1))
	g.Expect(measure(g, "capt_run_failures_total", "")).To(BeEquivalentTo(-1))
}

func TestObserveQueued_ignoresRunsThatDidNotWait(t *testing.T) {
	g := NewWithT(t)
	history.RegisterMetrics(nil)
	before := measure(g, "capt_run_queue_seconds")
	history.ObserveQueued(time.Time{}, noon)
	g.Expect(measure(g, "capt_run_queue_seconds")).To(Equal(before))
	history.ObserveQueued(noon, noon.Add(time.Second))
	g.Expect(measure(g, "capt_run_queue_seconds")).To(Equal(before + 1))
}

func TestQueueMetrics(t *testing.T) {
	g := NewWithT(t)
	history.RegisterMetrics(nil)
	g.Expect(measure(g, "capt_runs_in_flight")).To(BeZero())
	g.Expect(measure(g, "capt_runs_queued")).To(BeZero())
	g.Expect(measure(g, "capt_oldest_queued_run_seconds")).To(BeZero())

	now := noon
	q := queue.New(queue.Limits{Total: 1}, func() time.Time { return now }, func(queue.Key) {})
	history.RegisterMetrics(q)
	defer history.RegisterMetrics(nil)
	for _, name := range []string{"a", "b", "c"} {
		q.Acquire(queue.Key{Name: name}, queue.Group{})
		g.Expect(measure(g, "capt_oldest_queued_run_seconds") > 0).To(Equal(name == "c"), "the first of them runs")
		now = now.Add(time.Minute)
	}
	g.Expect(measure(g, "capt_oldest_queued_run_seconds")).To(BeEquivalentTo(120))
	g.Expect(measure(g, "capt_runs_in_flight")).To(BeEquivalentTo(1))
	g.Expect(measure(g, "capt_runs_queued")).To(BeEquivalentTo(2))
}

// labelsOf returns all values of a label of a metric.
func labelsOf(g Gomega, name, label string) []string {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var values []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, l := range metric.GetLabel() {
				if family.GetName() == name && l.GetName() == label {
					values = append(values, l.GetValue())
				}
			}
		}
	}
	return values
}

// A module can change the Secret of its run. Each new value of a label would be a time series
// that lives as long as the manager.
func TestMetrics_haveNoLabelsThatARunChooses(t *testing.T) {
	history.RegisterMetrics(nil)
	odd := []string{"", "Everything", "PlanAndApply ", "planandapply", "Destroy\n", "\x00", "日本", strings.Repeat("x", 10_000)}
	for i, value := range odd {
		c := newTestController(t, append(values(), newApply())...)
		c.reconcile()
		secret := c.runSecret("hello-r1")
		secret.Annotations[record.OperationAnnotation], secret.Annotations[record.ExecutorAnnotation] = value, value
		secret.Annotations[record.InputsAnnotation] = value
		written := terraform.Result{
			Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, StartedAt: noon, FinishedAt: noon.AddDate(-1000, 0, 0),
			Violations: []terraform.PolicyViolation{{Kind: value, Policy: value, Rule: value, Action: terraform.PolicyAction(value), Message: "m"}},
		}
		if i%2 == 0 {
			written.Outcome, written.Class = terraform.Outcome(value), terraform.Class(value)
		}
		c.Expect(record.SetResult(secret, &written)).To(Succeed())
		c.Expect(c.server.Update(t.Context(), secret)).To(Succeed())
		for range 3 {
			c.reconcile()
		}
		recorded := c.get().Status.History
		c.Expect(recorded).NotTo(BeEmpty(), "%q", value)
		c.Expect(recorded[len(recorded)-1].Operation).To(BeEquivalentTo(terraform.OperationPlanAndApply), "%q: the status knows what the run does", value)
	}
	g := NewWithT(t)
	for name, allowed := range map[string][]string{
		"capt_run_duration_seconds operation": plain(runs.Operations), "capt_run_duration_seconds outcome": append(plain(runs.Outcomes), "Measured", "Limited"),
		"capt_run_failures_total class": append(plain(runs.Classes), "measured"),
	} {
		metric, label, _ := strings.Cut(name, " ")
		found := labelsOf(g, metric, label)
		g.Expect(found).NotTo(BeEmpty(), name)
		for _, value := range found {
			g.Expect(allowed).To(ContainElement(value), name)
		}
	}
	for _, label := range []string{"kind", "policy", "action"} {
		for _, value := range labelsOf(g, "capt_policy_violations_total", label) {
			g.Expect(odd).NotTo(ContainElement(value))
		}
	}
}

// The run reports when it began and ended.
func TestObserveRun_limitsDurations(t *testing.T) {
	g := NewWithT(t)
	history.RegisterMetrics(nil)
	run := startRun(g, newScope("hello"), decision.Decision{Operation: terraform.OperationSaveState})
	sum := func() (total float64) {
		families, err := metrics.Registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "capt_run_duration_seconds" && metric.GetLabel()[0].GetValue() == "SaveState" {
					total += metric.GetHistogram().GetSampleSum()
				}
			}
		}
		return total
	}
	history.ObserveRun(run, &terraform.Result{Outcome: "Limited", StartedAt: noon, FinishedAt: noon.AddDate(-1000, 0, 0)}, "Limited")
	g.Expect(sum()).To(BeZero(), "a negative duration")
	history.ObserveRun(run, &terraform.Result{Outcome: "Limited", StartedAt: noon, FinishedAt: noon.AddDate(1000, 0, 0)}, "Limited")
	g.Expect(sum()).To(Equal(history.MaxObserved.Seconds()))
}

func plain[T ~string](values []T) []string {
	var texts []string
	for _, value := range values {
		texts = append(texts, string(value))
	}
	return texts
}

// Failed drift checks have an alert of their own, which is more patient than that of other runs.
func TestObserveRun_doesNotCountFailedDriftChecks(t *testing.T) {
	g := NewWithT(t)
	history.RegisterMetrics(nil)
	s, r := newScope("hello"), recording(func() error { return nil })
	before := measure(g, "capt_run_failures_total", string(terraform.ClassTransient))
	for range 7 {
		addRun(g, s, terraform.OperationCheckDrift, terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient})
	}
	g.Expect(r.build().recorder.History(t.Context(), s.Status)).To(Succeed())
	g.Expect(s.Apply.Status.History).To(HaveLen(7))
	g.Expect(measure(g, "capt_run_failures_total", string(terraform.ClassTransient))).To(Equal(before))
	g.Expect(measure(g, "capt_run_duration_seconds", "CheckDrift", "Interrupted")).To(BeNumerically(">=", 7))
	addRun(g, s, terraform.OperationPlan, terraform.Result{Outcome: terraform.OutcomeInterrupted, Class: terraform.ClassTransient})
	g.Expect(r.build().recorder.History(t.Context(), s.Status)).To(Succeed())
	g.Expect(measure(g, "capt_run_failures_total", string(terraform.ClassTransient))).To(Equal(before + 1))
}

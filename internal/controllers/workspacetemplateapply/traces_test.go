package workspacetemplateapply

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/decision"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/history"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
)

// tracesOf returns the spans of a run with this result, the run's last.
func tracesOf(t *testing.T, created time.Time, result *terraform.Result) []sdktrace.ReadOnlySpan {
	t.Helper()
	s := newScope("hello")
	s.Apply.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	run := startRun(NewWithT(t), s, decision.Decision{Operation: terraform.OperationApply})
	run.Secret.CreationTimestamp = metav1.NewTime(created)
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	history.TraceRun(t.Context(), provider.Tracer("test"), s.Apply, run, result)
	return recorder.Ended()
}

func TestTraceRun_hasASpanForEachPhase(t *testing.T) {
	g := NewWithT(t)
	started := noon.Add(2 * time.Second)
	spans := tracesOf(t, noon, &terraform.Result{
		Outcome: terraform.OutcomeSucceeded, StartedAt: started, FinishedAt: noon.Add(10 * time.Second),
		Plan: &terraform.PlanSummary{Add: 3},
		Phases: []terraform.PhaseTime{
			{Name: terraform.PhaseInitialising, StartedAt: started, Duration: time.Second},
			{Name: terraform.PhaseApplying, StartedAt: started.Add(2 * time.Second), Duration: 5 * time.Second},
		},
	})

	g.Expect(spans).To(HaveLen(4))
	root := spans[3]
	g.Expect(root.Name()).To(Equal("Apply"))
	g.Expect(root.Parent().IsValid()).To(BeFalse())
	g.Expect(root.Status().Code).To(Equal(codes.Unset))
	times := map[string][2]time.Duration{}
	for _, span := range spans {
		g.Expect(span.SpanContext().TraceID()).To(Equal(root.SpanContext().TraceID()))
		times[span.Name()] = [2]time.Duration{span.StartTime().Sub(noon), span.EndTime().Sub(noon)}
	}
	g.Expect(times).To(Equal(map[string][2]time.Duration{
		"Waiting": {0, 2 * time.Second}, "Initialising": {2 * time.Second, 3 * time.Second},
		"Applying": {4 * time.Second, 9 * time.Second}, "Apply": {0, 10 * time.Second},
	}))
	attributes := map[string]string{}
	for _, a := range root.Attributes() {
		attributes[string(a.Key)] = a.Value.String()
	}
	g.Expect(attributes).To(Equal(map[string]string{
		"k8s.namespace.name": "n", "capt.workspace": "hello", "capt.run": "hello-r1", "capt.cluster": "demo",
		"capt.operation": "Apply", "capt.executor": attributes["capt.executor"], "capt.outcome": "Succeeded",
		"capt.plan.add": "3", "capt.plan.change": "0", "capt.plan.destroy": "0",
	}))
}

// The run reports its phases.
func TestTraceRun_limitsTheSpansOfARun(t *testing.T) {
	g := NewWithT(t)
	result := &terraform.Result{Outcome: terraform.OutcomeSucceeded, StartedAt: noon, FinishedAt: noon}
	for range 10_000 {
		result.Phases = append(result.Phases, terraform.PhaseTime{Name: terraform.Phase(strings.Repeat("x", 10_000)), StartedAt: noon})
	}
	spans := tracesOf(t, noon, result)
	g.Expect(spans).To(HaveLen(2 + history.MaxPhases))
	for _, span := range spans {
		g.Expect(len(span.Name())).To(BeNumerically("<=", runs.MaxWord))
	}
}

func TestTraceRun_isAnErrorWithoutDiagnosticsIfTheRunFailed(t *testing.T) {
	g := NewWithT(t)
	spans := tracesOf(t, noon.Add(time.Hour), &terraform.Result{
		Outcome: terraform.OutcomeFailed, Class: terraform.ClassTerminal, StartedAt: noon, FinishedAt: noon.Add(time.Second),
		Diagnostics: terraform.Diagnostics{{Summary: "the password is hunter2"}},
	})
	root := spans[len(spans)-1]
	g.Expect(root.Status()).To(Equal(sdktrace.Status{Code: codes.Error, Description: "Failed"}))
	g.Expect(root.StartTime()).To(Equal(noon), "the clocks of manager and runner differ")
	g.Expect(root.Events()).To(BeEmpty())
}

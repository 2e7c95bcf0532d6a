package history

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform"
)

// MaxPhases is the number of spans of the phases of a run. The run reports them.
const MaxPhases = 32

// TraceRun sends the trace of a run that has ended: a span for the run, from the creation
// of its Secret, with one for the time until it started and one for each phase. It names
// neither outputs nor diagnostics, which may be secret.
func TraceRun(ctx context.Context, tracer trace.Tracer, apply *infrav1.WorkspaceTemplateApply, run *runs.Run, result *terraform.Result) {
	if tracer == nil {
		return
	}
	// A run that was lost has the clock of the manager, all others that of the runner.
	created := run.Secret.CreationTimestamp.Time
	if created.IsZero() || created.After(result.StartedAt) {
		created = result.StartedAt
	}
	attributes := []attribute.KeyValue{
		attribute.String("k8s.namespace.name", apply.Namespace),
		attribute.String("capt.workspace", apply.Name),
		attribute.String("capt.run", run.ID),
		attribute.String("capt.operation", string(run.Operation())),
		attribute.String("capt.outcome", string(result.Outcome)),
		attribute.String("capt.executor", string(run.Executor())),
	}
	if cluster := apply.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		attributes = append(attributes, attribute.String("capt.cluster", cluster))
	}
	if result.Class != "" {
		attributes = append(attributes, attribute.String("capt.class", string(result.Class)))
	}
	if plan := result.Plan; plan != nil {
		attributes = append(attributes, attribute.Int("capt.plan.add", plan.Add),
			attribute.Int("capt.plan.change", plan.Change), attribute.Int("capt.plan.destroy", plan.Destroy))
	}
	ctx, span := tracer.Start(ctx, string(run.Operation()), trace.WithNewRoot(), trace.WithTimestamp(created), trace.WithAttributes(attributes...))
	_, waiting := tracer.Start(ctx, "Waiting", trace.WithTimestamp(created))
	waiting.End(trace.WithTimestamp(result.StartedAt))
	for _, phase := range firstOf(result.Phases, MaxPhases) {
		_, s := tracer.Start(ctx, message.Truncate(string(phase.Name), runs.MaxWord), trace.WithTimestamp(phase.StartedAt))
		s.End(trace.WithTimestamp(phase.StartedAt.Add(phase.Duration)))
	}
	if failed := []terraform.Outcome{terraform.OutcomeFailed, terraform.OutcomeInterrupted, terraform.OutcomeTimedOut, runs.OutcomeLost}; slices.Contains(failed, result.Outcome) {
		span.SetStatus(codes.Error, string(result.Outcome))
	}
	span.End(trace.WithTimestamp(result.FinishedAt))
}

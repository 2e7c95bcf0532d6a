package reconcile

import (
	"context"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Step is one step of a controller.
type Step[S any] struct {
	// Condition is the type of the condition that the step decides. If a step
	// without a condition ends early, only Ready reports it.
	Condition string

	// Run reads the current state, decides, and requests changes. It may change
	// the object's status and spec in memory. It must not write a condition,
	// patch the object or sleep, and it must be idempotent: it runs on every
	// reconcile that reaches it.
	//
	// Its error decides the condition: nil makes it True, a fault.Waiting or
	// fault.Stalled makes it False with that reason, a conflict leaves it
	// unchanged, and any other error makes it Unknown. Each error ends the list.
	// All except the faults are retried.
	Run func(ctx context.Context, s *S) error

	// Skip, if set, reports whether there is nothing to observe yet. The step does not
	// run then, and its condition stays as it is.
	Skip func(s *S) bool

	// Reason is the reason of the True condition. It defaults to the reason that
	// Cluster API uses: Ready for FooReady, Available for FooAvailable, and the
	// condition type otherwise.
	Reason string

	// ReasonOf, if set, returns the reason of the True condition. It is for
	// conditions with several such reasons. If it returns an empty string, Reason
	// applies.
	ReasonOf func(s *S) string

	// Message, if set, returns the message of the True condition.
	Message func(s *S) string

	// RequeueAfter, if set, is called after the step succeeded. It returns when
	// the step has to run again without a watch event, for example before a token
	// expires. Zero means never; a negative value means a short delay.
	RequeueAfter func(s *S) time.Duration

	// Informational marks a step whose wait or stall sets a condition but stops
	// nothing: the following steps run, and Ready ignores the condition.
	Informational bool

	// ContinueIf, if set, is called after a wait or a stall. It reports whether
	// the following steps run nevertheless, for example to renew a token during an
	// upgrade. Ready still counts the step.
	ContinueIf func(s *S) bool
}

// runSteps runs the steps in order, sets the condition of each one it reaches,
// and stops at the first that does not pass. The conditions of the steps after
// it are unchanged. It returns the first outcome that Ready has to report, or
// the one that stopped the list.
func runSteps[S any](ctx context.Context, obj Object, steps []Step[S], s *S) outcome {
	total := outcome{class: passed}
	for _, step := range steps {
		if step.Skip != nil && step.Skip(s) {
			continue
		}
		o := classify(step.Run(ctx, s))
		if o.class == passed {
			o = step.passed(s)
		}
		o.condition = step.Condition
		setStepCondition(obj, o)
		requeueAfter := sooner(total.requeueAfter, o.requeueAfter)
		switch {
		case o.class == passed || step.Informational && o.isFault():
		case o.isFault() && step.ContinueIf != nil && step.ContinueIf(s):
			if total.class == passed {
				total = o
			}
		case o.class > total.class || total.class == passed:
			o.requeueAfter = requeueAfter
			return o
		default:
			total.requeueAfter = requeueAfter
			return total
		}
		total.requeueAfter = requeueAfter
	}
	return total
}

// passed returns the outcome of a step that succeeded.
func (step Step[S]) passed(s *S) outcome {
	o := outcome{class: passed}
	if step.ReasonOf != nil {
		o.reason = step.ReasonOf(s)
	}
	if o.reason == "" {
		o.reason = step.Reason
	}
	if o.reason == "" {
		o.reason = defaultReason(step.Condition)
	}
	if step.Message != nil {
		o.message = step.Message(s)
	}
	if step.RequeueAfter != nil {
		o.requeueAfter = step.RequeueAfter(s)
		if o.requeueAfter < 0 {
			o.requeueAfter = retryDelay
		}
	}
	return o
}

// defaultReason returns the reason that Cluster API gives to a True condition.
func defaultReason(conditionType string) string {
	for _, reason := range []string{
		clusterv1.ReadyReason, clusterv1.AvailableReason, clusterv1.UpToDateReason,
	} {
		if strings.HasSuffix(conditionType, reason) {
			return reason
		}
	}
	return conditionType
}

// summarisedTypes returns the condition types that Ready summarises, in order.
func summarisedTypes[S any](steps []Step[S]) []string {
	return conditionTypes(slices.DeleteFunc(slices.Clone(steps), func(step Step[S]) bool { return step.Informational }))
}

// conditionTypes returns the condition types of the steps, in order.
func conditionTypes[S any](steps []Step[S]) []string {
	var types []string
	for _, step := range steps {
		if step.Condition != "" {
			types = append(types, step.Condition)
		}
	}
	return types
}

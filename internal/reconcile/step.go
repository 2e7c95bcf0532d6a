package reconcile

import (
	"context"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Step is one entry of a controller's table of contents.
type Step[S any] struct {
	// Condition is the type of the condition that the step decides. A step
	// without one is pure work; when it ends early, Ready alone says so.
	Condition string

	// Run reads, decides and asks. It may change the object's status and spec
	// in memory; it never writes a condition, patches the object or sleeps, and
	// it must be idempotent, for it runs on every reconcile that reaches it.
	//
	// Its error decides the condition: nil makes it True, a fault.Waiting or
	// fault.Stalled makes it False with that reason, a conflict leaves it as it
	// was, and anything else makes it Unknown. Each error ends the list; all but
	// the faults are retried.
	Run func(ctx context.Context, s *S) error

	// Reason is the reason of the condition when it is True. It defaults to
	// what Cluster API says: Ready for FooReady, Available for FooAvailable, the
	// type itself otherwise.
	Reason string

	// ReasonOf, if set, gives the reason of the condition when it is True and
	// more than one is possible. An empty answer falls back to Reason.
	ReasonOf func(s *S) string

	// Message, if set, gives the message of the condition when it is True.
	Message func(s *S) string

	// RequeueAfter, if set, is asked after the step succeeded for how soon it has to
	// run again although no watch fires, as before a token expires. Zero means
	// never; a moment that has passed counts as shortly.
	RequeueAfter func(s *S) time.Duration

	// Informational marks a step whose wait or stall is worth a condition but
	// stops nothing: the list goes on, and Ready does not count it.
	Informational bool

	// ContinueIf, if set, is asked after a wait or a stall whether the steps after
	// it run nevertheless, as a token is renewed while an upgrade goes on. Ready
	// counts the step all the same.
	ContinueIf func(s *S) bool
}

// walk runs the steps in order, records the condition of each one it reaches
// and stops at the first that does not pass. The conditions of the others stay
// as they were. What it returns is the first verdict that Ready has to tell of,
// or the one that stopped it.
func walk[S any](ctx context.Context, obj Object, steps []Step[S], s *S) verdict {
	all := verdict{kind: passed}
	for _, step := range steps {
		v := judge(step.Run(ctx, s))
		if v.kind == passed {
			v = step.pass(s)
		}
		v.condition = step.Condition
		record(obj, v)
		again := sooner(all.again, v.again)
		switch {
		case v.kind == passed || step.Informational && v.isFault():
		case v.isFault() && step.ContinueIf != nil && step.ContinueIf(s):
			if all.kind == passed {
				all = v
			}
		case v.kind > all.kind || all.kind == passed:
			v.again = again
			return v
		default:
			all.again = again
			return all
		}
		all.again = again
	}
	return all
}

// pass is the verdict on a step that succeeded.
func (step Step[S]) pass(s *S) verdict {
	v := verdict{kind: passed}
	if step.ReasonOf != nil {
		v.reason = step.ReasonOf(s)
	}
	if v.reason == "" {
		v.reason = step.Reason
	}
	if v.reason == "" {
		v.reason = passReason(step.Condition)
	}
	if step.Message != nil {
		v.message = step.Message(s)
	}
	if step.RequeueAfter != nil {
		v.again = step.RequeueAfter(s)
		if v.again < 0 {
			v.again = soon
		}
	}
	return v
}

// passReason is the reason Cluster API gives to a condition that is True.
func passReason(conditionType string) string {
	for _, reason := range []string{
		clusterv1.ReadyReason, clusterv1.AvailableReason, clusterv1.UpToDateReason,
	} {
		if strings.HasSuffix(conditionType, reason) {
			return reason
		}
	}
	return conditionType
}

// counted lists the condition types that Ready sums up, in order.
func counted[S any](steps []Step[S]) []string {
	return conditionsOf(slices.DeleteFunc(slices.Clone(steps), func(step Step[S]) bool { return step.Informational }))
}

// conditionsOf lists the condition types of the steps, in order.
func conditionsOf[S any](steps []Step[S]) []string {
	var types []string
	for _, step := range steps {
		if step.Condition != "" {
			types = append(types, step.Condition)
		}
	}
	return types
}

package reconcile

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// soon is when to try again what is expected to work the next time.
const soon = time.Second

// kind tells what an error means for the next run.
type kind int

const (
	passed     kind = iota // Go on.
	waiting                // A watch or the clock brings us back.
	stalled                // A change of the inputs brings us back.
	conflicted             // Somebody else wrote first: look again, say nothing.
	failed                 // Retried with a growing delay.
)

// verdict is what the result of one step, or of a whole run, comes to.
type verdict struct {
	kind      kind
	condition string // The condition it is about; may be empty.
	reason    string
	message   string
	again     time.Duration // When to run again; zero means that no clock is needed.
	err       error         // What to return; set only when failed.
}

// judge classifies the error of a step. Where several errors were joined, the
// most pressing class decides, so that no failure hides behind a wait; the
// reason is that of the first in its class, the message that of them all.
func judge(err error) verdict {
	v := verdict{kind: passed}
	if err == nil {
		return v
	}
	var messages []string
	for _, branch := range branches(err) {
		b := judgeOne(branch)
		again := sooner(v.again, b.again)
		switch {
		case b.kind > v.kind:
			v, messages = b, []string{b.message}
		case b.kind == v.kind:
			messages = append(messages, b.message)
		}
		v.again = again
	}
	v.message = strings.Join(messages, "; ")
	if v.kind == failed {
		v.message, v.err = short(err), err
	}
	return v
}

func judgeOne(err error) verdict {
	if w, ok := fault.AsWaiting(err); ok {
		return verdict{kind: waiting, reason: w.Reason, message: w.Message(), again: w.RetryAfter}
	}
	if s, ok := fault.AsStalled(err); ok {
		return verdict{kind: stalled, reason: s.Reason, message: s.Message()}
	}
	if apierrors.IsConflict(err) {
		return verdict{kind: conflicted}
	}
	return verdict{kind: failed, reason: clusterv1.InternalErrorReason}
}

// isFault tells whether the step ended early without having failed.
func (v verdict) isFault() bool { return v.kind == waiting || v.kind == stalled }

// status is the condition status that the verdict stands for.
func (v verdict) status() metav1.ConditionStatus {
	switch v.kind {
	case passed:
		return metav1.ConditionTrue
	case waiting, stalled:
		return metav1.ConditionFalse
	default:
		return metav1.ConditionUnknown
	}
}

// result tells controller-runtime when to come back. A lost write is always
// retried, whatever the run itself came to: a wait or a stall that nobody can
// read would be waited for in vain.
func (v verdict) result(persistErr error) (ctrl.Result, error) {
	switch {
	case persistErr != nil && !isConflict(persistErr):
		return ctrl.Result{}, errors.Join(v.err, persistErr)
	case v.kind == failed:
		return ctrl.Result{}, v.err
	case persistErr != nil || v.kind == conflicted:
		return ctrl.Result{RequeueAfter: soon}, nil
	default:
		return ctrl.Result{RequeueAfter: v.again}, nil
	}
}

// branches splits an error that was joined or aggregated, at any depth, into
// the errors it was made of. The causes of a fault are part of that fault.
func branches(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		var parts []error
		switch e := e.(type) { //nolint:errorlint // The chain is walked here by hand.
		case *fault.Waiting, *fault.Stalled:
			return []error{err}
		case interface{ Unwrap() []error }:
			parts = e.Unwrap()
		case interface{ Errors() []error }: // An apimachinery Aggregate.
			parts = e.Errors()
		default:
			continue
		}
		var all []error
		for _, part := range parts {
			all = append(all, branches(part)...)
		}
		return all
	}
	return []error{err}
}

// sooner is the shorter of two delays, where zero is no delay at all.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

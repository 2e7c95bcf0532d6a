package reconcile

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// retryDelay is the delay before a retry that is expected to succeed.
const retryDelay = time.Second

// terminatingDelay is the delay before an object is created again in a namespace that is being
// deleted. A namespace of the name may be created afterwards.
const terminatingDelay = time.Minute

// class is the class of an error. Classes are ordered by precedence.
type class int

const (
	passed     class = iota // No error.
	waiting                 // A watch or RequeueAfter triggers the next run.
	stalled                 // A change of the inputs triggers the next run.
	conflicted              // Another client wrote first. Retried; not reported.
	failed                  // Retried with exponential backoff.
)

// outcome is the result of one step, or of a whole run.
type outcome struct {
	class        class
	condition    string // The type of the step's condition; may be empty.
	reason       string
	message      string
	requeueAfter time.Duration // Zero means that no requeue is required.
	unknown      bool          // The condition of a wait is Unknown instead of False.
	err          error         // The error to return; set only if the class is failed.
}

// classify returns the outcome of a step from its error. If several errors are
// joined, the highest class decides, so that a wait does not hide a failure. The
// reason is that of the first error of this class; the message has all of them.
func classify(err error) outcome {
	o := outcome{class: passed}
	if err == nil {
		return o
	}
	var messages []string
	for _, branch := range branches(err) {
		b := classifyOne(branch)
		requeueAfter := sooner(o.requeueAfter, b.requeueAfter)
		switch {
		case b.class > o.class:
			o, messages = b, []string{b.message}
		case b.class == o.class:
			messages = append(messages, b.message)
		}
		o.requeueAfter = requeueAfter
	}
	o.message = strings.Join(messages, "; ")
	if o.class == failed {
		o.message, o.err = errorMessage(err), err
	}
	return o
}

func classifyOne(err error) outcome {
	if w, ok := fault.AsWaiting(err); ok {
		return outcome{class: waiting, reason: w.Reason, message: w.Message(), requeueAfter: w.RetryAfter, unknown: w.Unknown}
	}
	if s, ok := fault.AsStalled(err); ok {
		return outcome{class: stalled, reason: s.Reason, message: s.Message()}
	}
	if apierrors.IsConflict(err) {
		return outcome{class: conflicted}
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Retries with backoff would not help, and a user decides what the deletion waits for.
		return outcome{class: waiting, reason: string(corev1.NamespaceTerminatingCause), message: errorMessage(err), requeueAfter: terminatingDelay}
	}
	return outcome{class: failed, reason: clusterv1.InternalErrorReason}
}

// isFault reports whether the step ended with a wait or a stall.
func (o outcome) isFault() bool { return o.class == waiting || o.class == stalled }

// status returns the condition status of the outcome.
func (o outcome) status() metav1.ConditionStatus {
	switch {
	case o.class == passed:
		return metav1.ConditionTrue
	case o.isFault() && !o.unknown:
		return metav1.ConditionFalse
	default:
		return metav1.ConditionUnknown
	}
}

// result returns the outcome for controller-runtime. A failed write is always
// retried, whatever the outcome of the run: a wait or a stall that is not
// visible in the status cannot be resolved by a user.
func (o outcome) result(persistErr error) (ctrl.Result, error) {
	switch {
	case persistErr != nil && !isConflict(persistErr):
		return ctrl.Result{}, errors.Join(o.err, persistErr)
	case o.class == failed:
		return ctrl.Result{}, o.err
	case persistErr != nil || o.class == conflicted:
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	default:
		return ctrl.Result{RequeueAfter: o.requeueAfter}, nil
	}
}

// branches splits a joined or aggregated error, at any depth, into its parts. It
// does not split the cause of a fault.
func branches(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		var parts []error
		switch e := e.(type) { //nolint:errorlint // The loop unwraps the chain.
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

// sooner returns the shorter of two delays. Zero means no delay.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

var (
	errBoom     = errors.New("boom")
	thingGR     = schema.GroupResource{Group: "test.capt.appthrust.io", Resource: "things"}
	errConflict = apierrors.NewConflict(thingGR, "a", errors.New("the object has been modified"))
	errEnding   = &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonForbidden, Message: "the namespace is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
	errNotFound = apierrors.NewNotFound(thingGR, "a")
)

func TestClassify_joinedErrors(t *testing.T) {
	wait := fault.Wait("W", "w")
	waitFor := fault.WaitFor(time.Minute, "WF", "wf")
	stall := fault.Stall("S", "s")
	tests := []struct {
		name         string
		err          error
		class        class
		reason       string
		message      string
		requeueAfter time.Duration
	}{
		{name: "the messages of all waits", err: errors.Join(wait, waitFor), class: waiting, reason: "W", message: "w; wf", requeueAfter: time.Minute},
		{name: "a stall wins over a wait", err: errors.Join(wait, stall), class: stalled, reason: "S", message: "s"},
		{
			name: "a stall keeps the delay of a wait",
			err:  errors.Join(stall, waitFor), class: stalled, reason: "S", message: "s", requeueAfter: time.Minute,
		},
		{
			name: "a conflict wins over a stall",
			err:  errors.Join(stall, errConflict), class: conflicted,
		},
		{
			name: "a failure wins over a wait",
			err:  errors.Join(wait, errBoom), class: failed, reason: "InternalError", message: "W: w; boom",
		},
		{
			name:  "a failure deep in the tree",
			err:   fmt.Errorf("nodes: %w", errors.Join(wait, fmt.Errorf("x: %w", errors.Join(stall, errBoom)))),
			class: failed, reason: "InternalError", message: "nodes: W: w; x: S: s; boom",
		},
		{
			name:  "a failure in an aggregate",
			err:   utilerrors.NewAggregate([]error{wait, errBoom}),
			class: failed, reason: "InternalError", message: "[W: w, boom]",
		},
		{
			name: "an aggregate of waits is a wait",
			err:  utilerrors.NewAggregate([]error{wait, wait}), class: waiting, reason: "W", message: "w; w",
		},
		{
			name:  "a namespace that is being deleted is a wait",
			err:   fmt.Errorf("starting: %w", errors.Join(wait, errEnding)),
			class: waiting, reason: "W", message: "w; " + errEnding.ErrStatus.Message, requeueAfter: terminatingDelay,
		},
		{
			name:  "the cause of a wait is not split",
			err:   fault.Wait("W", "because %w", errors.Join(errBoom, errConflict)),
			class: waiting, reason: "W", message: "because boom\n" + errConflict.Error(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			o := classify(tt.err)

			g.Expect(o.class).To(Equal(tt.class))
			g.Expect(o.reason).To(Equal(tt.reason))
			g.Expect(o.message).To(Equal(tt.message))
			g.Expect(o.requeueAfter).To(Equal(tt.requeueAfter))
			if tt.class == failed {
				g.Expect(o.err).To(Equal(tt.err))
			} else {
				g.Expect(o.err).NotTo(HaveOccurred())
			}
		})
	}
}

func TestOutcome_result(t *testing.T) {
	writeErr := errors.New("failed write")
	tests := []struct {
		name    string
		run     error
		persist error
		want    ctrl.Result
		errs    []error
	}{
		{name: "passed"},
		{name: "a wait for a watch", run: fault.Wait("W", "w")},
		{name: "a wait with a delay", run: fault.WaitFor(time.Hour, "W", "w"), want: ctrl.Result{RequeueAfter: time.Hour}},
		{name: "a stall", run: fault.Stall("S", "s")},
		{name: "a failure is retried", run: errBoom, errs: []error{errBoom}},
		{name: "a conflict is requeued", run: errConflict, want: ctrl.Result{RequeueAfter: retryDelay}},
		{name: "a failed write wins over success", persist: writeErr, errs: []error{writeErr}},
		{name: "a failed write wins over a wait", run: fault.WaitFor(time.Hour, "W", "w"), persist: writeErr, errs: []error{writeErr}},
		{name: "a failed write wins over a stall", run: fault.Stall("S", "s"), persist: writeErr, errs: []error{writeErr}},
		{name: "a failed write joins a failure", run: errBoom, persist: writeErr, errs: []error{errBoom, writeErr}},
		{name: "a conflicting write is requeued", persist: errConflict, want: ctrl.Result{RequeueAfter: retryDelay}},
		{
			name: "a conflicting write is requeued before the delay of a wait",
			run:  fault.WaitFor(time.Hour, "W", "w"), persist: errConflict, want: ctrl.Result{RequeueAfter: retryDelay},
		},
		{name: "a conflicting write keeps a failure", run: errBoom, persist: errConflict, errs: []error{errBoom}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			result, err := classify(tt.run).result(tt.persist)

			g.Expect(result).To(Equal(tt.want))
			if len(tt.errs) == 0 {
				g.Expect(err).NotTo(HaveOccurred())
			}
			for _, want := range tt.errs {
				g.Expect(err).To(MatchError(want))
			}
			_, isWaiting := fault.AsWaiting(err)
			_, isStalled := fault.AsStalled(err)
			g.Expect(isWaiting || isStalled).To(BeFalse(), "a fault is not returned to controller-runtime")
		})
	}
}

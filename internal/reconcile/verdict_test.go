package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

var (
	errBoom     = errors.New("boom")
	thingGR     = schema.GroupResource{Group: "test.capt.appthrust.io", Resource: "things"}
	errConflict = apierrors.NewConflict(thingGR, "a", errors.New("the object has been modified"))
	errNotFound = apierrors.NewNotFound(thingGR, "a")
)

func TestJudge_joinedErrors(t *testing.T) {
	wait := fault.Wait("W", "w")
	waitFor := fault.WaitFor(time.Minute, "WF", "wf")
	stall := fault.Stall("S", "s")
	tests := []struct {
		name    string
		err     error
		kind    kind
		reason  string
		message string
		again   time.Duration
	}{
		{name: "waits tell all", err: errors.Join(wait, waitFor), kind: waiting, reason: "W", message: "w; wf", again: time.Minute},
		{name: "a stall wins over a wait", err: errors.Join(wait, stall), kind: stalled, reason: "S", message: "s"},
		{
			name: "a stall does not stop the clock of a wait",
			err:  errors.Join(stall, waitFor), kind: stalled, reason: "S", message: "s", again: time.Minute,
		},
		{
			name: "a conflict beside a stall is looked at again",
			err:  errors.Join(stall, errConflict), kind: conflicted,
		},
		{
			name: "a failure never hides behind a wait",
			err:  errors.Join(wait, errBoom), kind: failed, reason: "InternalError", message: "W: w; boom",
		},
		{
			name: "nor deep in the tree",
			err:  fmt.Errorf("nodes: %w", errors.Join(wait, fmt.Errorf("x: %w", errors.Join(stall, errBoom)))),
			kind: failed, reason: "InternalError", message: "nodes: W: w; x: S: s; boom",
		},
		{
			name: "nor in an aggregate",
			err:  utilerrors.NewAggregate([]error{wait, errBoom}),
			kind: failed, reason: "InternalError", message: "[W: w, boom]",
		},
		{
			name: "an aggregate of waits is a wait",
			err:  utilerrors.NewAggregate([]error{wait, wait}), kind: waiting, reason: "W", message: "w; w",
		},
		{
			name: "the cause of a wait is part of it",
			err:  fault.Wait("W", "because %w", errors.Join(errBoom, errConflict)),
			kind: waiting, reason: "W", message: "because boom\n" + errConflict.Error(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			v := judge(tt.err)

			g.Expect(v.kind).To(Equal(tt.kind))
			g.Expect(v.reason).To(Equal(tt.reason))
			g.Expect(v.message).To(Equal(tt.message))
			g.Expect(v.again).To(Equal(tt.again))
			if tt.kind == failed {
				g.Expect(v.err).To(Equal(tt.err))
			} else {
				g.Expect(v.err).NotTo(HaveOccurred())
			}
		})
	}
}

func TestVerdict_result(t *testing.T) {
	lost := errors.New("lost write")
	tests := []struct {
		name    string
		run     error
		persist error
		want    ctrl.Result
		errs    []error
	}{
		{name: "passed"},
		{name: "a wait for a watch", run: fault.Wait("W", "w")},
		{name: "a wait on the clock", run: fault.WaitFor(time.Hour, "W", "w"), want: ctrl.Result{RequeueAfter: time.Hour}},
		{name: "a stall", run: fault.Stall("S", "s")},
		{name: "a failure is retried", run: errBoom, errs: []error{errBoom}},
		{name: "a conflict is retried quietly", run: errConflict, want: ctrl.Result{RequeueAfter: soon}},
		{name: "a lost write wins over success", persist: lost, errs: []error{lost}},
		{name: "a lost write wins over a wait", run: fault.WaitFor(time.Hour, "W", "w"), persist: lost, errs: []error{lost}},
		{name: "a lost write wins over a stall", run: fault.Stall("S", "s"), persist: lost, errs: []error{lost}},
		{name: "a lost write joins a failure", run: errBoom, persist: lost, errs: []error{errBoom, lost}},
		{name: "a conflicting write is retried quietly", persist: errConflict, want: ctrl.Result{RequeueAfter: soon}},
		{
			name: "a conflicting write is not slower than a wait",
			run:  fault.WaitFor(time.Hour, "W", "w"), persist: errConflict, want: ctrl.Result{RequeueAfter: soon},
		},
		{name: "a conflicting write keeps a failure", run: errBoom, persist: errConflict, errs: []error{errBoom}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			result, err := judge(tt.run).result(tt.persist)

			g.Expect(result).To(Equal(tt.want))
			if len(tt.errs) == 0 {
				g.Expect(err).NotTo(HaveOccurred())
			}
			for _, want := range tt.errs {
				g.Expect(err).To(MatchError(want))
			}
			_, isWaiting := fault.AsWaiting(err)
			_, isStalled := fault.AsStalled(err)
			g.Expect(isWaiting || isStalled).To(BeFalse(), "a fault is no error to controller-runtime")
		})
	}
}

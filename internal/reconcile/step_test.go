package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestRunSteps_setsConditionsFromErrors(t *testing.T) {
	previous := withCondition(metav1.Condition{Type: networkReady, Status: metav1.ConditionTrue, Reason: "Before"})
	tests := []struct {
		name  string
		err   error
		want  state
		class class
	}{
		{name: "nil", err: nil, want: state{"True", "Ready", ""}, class: passed},
		{
			name: "wait", err: fault.Wait("InProgress", "3 of 9"),
			want: state{"False", "InProgress", "3 of 9"}, class: waiting,
		},
		{
			name: "wrapped wait", err: fmt.Errorf("creating network: %w", fault.Wait("InProgress", "3 of 9")),
			want: state{"False", "InProgress", "3 of 9"}, class: waiting,
		},
		{
			name: "stall", err: fault.Stall("RunFailed", "denied"),
			want: state{"False", "RunFailed", "denied"}, class: stalled,
		},
		{
			name: "any other error", err: errors.New("connection refused"),
			want: state{"Unknown", "InternalError", "connection refused"}, class: failed,
		},
		{
			name: "a conflict leaves it unchanged", err: fmt.Errorf("updating run: %w", errConflict),
			want: state{"True", "Before", ""}, class: conflicted,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := newThing(previous)

			o := runSteps(t.Context(), obj, []Step[scope]{step(networkReady, returns(tt.err))}, &scope{})

			g.Expect(o.class).To(Equal(tt.class))
			g.Expect(stateOf(obj, networkReady)).To(Equal(tt.want))
			g.Expect(conditions.Get(obj, networkReady).ObservedGeneration).To(BeEquivalentTo(3))
		})
	}
}

func TestRunSteps_leavesTheConditionOfASkippedStep(t *testing.T) {
	g := NewWithT(t)
	obj := newThing(withCondition(metav1.Condition{Type: networkReady, Status: metav1.ConditionFalse, Reason: "Before"}))
	skipped, next := step(networkReady, returns(nil)), step(endpointReady, returns(nil))
	skipped.Skip, next.Skip = func(*scope) bool { return true }, func(*scope) bool { return false }
	o := runSteps(t.Context(), obj, []Step[scope]{skipped, next}, &scope{})
	g.Expect(o.class).To(Equal(passed))
	g.Expect(stateOf(obj, networkReady)).To(Equal(state{"False", "Before", ""}))
	g.Expect(stateOf(obj, endpointReady)).To(Equal(state{"True", "Ready", ""}))
}

func TestRunSteps_stopsAtTheFirstStepThatDoesNotPass(t *testing.T) {
	for _, err := range []error{
		fault.Wait("W", "w"), fault.Stall("S", "s"), errors.New("boom"), errConflict,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			g := NewWithT(t)
			old := metav1.Condition{Type: networkGone, Status: metav1.ConditionTrue, Reason: "Before"}
			obj := newThing(withCondition(old))
			obj.Generation = 4
			s := &scope{}

			runSteps(t.Context(), obj, []Step[scope]{
				step(networkReady, returns(nil)), step(endpointReady, returns(err)), step(networkGone, returns(nil)),
			}, s)

			g.Expect(s.ran).To(Equal([]string{networkReady, endpointReady}))
			g.Expect(conditions.Get(obj, networkGone)).To(HaveField("Reason", "Before"))
			g.Expect(conditions.Get(obj, networkGone)).To(HaveField("ObservedGeneration", BeEquivalentTo(3)),
				"the condition of a step that did not run keeps its generation")
		})
	}
}

func TestRunSteps_requeues(t *testing.T) {
	in := func(d time.Duration) func(*scope) time.Duration {
		return func(*scope) time.Duration { return d }
	}
	ok := Step[scope]{Run: step("", returns(nil)).Run}
	requeue := func(d time.Duration) Step[scope] { return Step[scope]{Run: ok.Run, RequeueAfter: in(d)} }
	wait := func(err error) Step[scope] { return step(endpointReady, returns(err)) }

	tests := []struct {
		name  string
		steps []Step[scope]
		want  time.Duration
	}{
		{name: "no step requeues", steps: []Step[scope]{ok}, want: 0},
		{name: "never", steps: []Step[scope]{requeue(0)}, want: 0},
		{name: "one requeues", steps: []Step[scope]{ok, requeue(time.Hour), ok}, want: time.Hour},
		{name: "the shortest delay wins", steps: []Step[scope]{requeue(time.Hour), requeue(time.Minute)}, want: time.Minute},
		{name: "a negative delay is a short delay", steps: []Step[scope]{requeue(-time.Hour)}, want: retryDelay},
		{
			name:  "a wait for a watch keeps the delay",
			steps: []Step[scope]{requeue(time.Hour), wait(fault.Wait("W", "w"))}, want: time.Hour,
		},
		{
			name:  "a wait with a shorter delay",
			steps: []Step[scope]{requeue(time.Hour), wait(fault.WaitFor(time.Minute, "W", "w"))}, want: time.Minute,
		},
		{
			name:  "a wait with a longer delay",
			steps: []Step[scope]{requeue(time.Minute), wait(fault.WaitFor(time.Hour, "W", "w"))}, want: time.Minute,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(runSteps(t.Context(), newThing(), tt.steps, &scope{}).requeueAfter).To(Equal(tt.want))
		})
	}
}

func TestStep_reasonOfATrueCondition(t *testing.T) {
	tests := []struct {
		name string
		step Step[scope]
		want state
	}{
		{name: "FooReady is Ready", step: Step[scope]{Condition: "FooReady"}, want: state{"True", "Ready", ""}},
		{name: "Available", step: Step[scope]{Condition: "Available"}, want: state{"True", "Available", ""}},
		{
			name: "MachinesUpToDate is UpToDate", step: Step[scope]{Condition: "MachinesUpToDate"},
			want: state{"True", "UpToDate", ""},
		},
		{name: "another is the condition type", step: Step[scope]{Condition: "Drained"}, want: state{"True", "Drained", ""}},
		{
			name: "its own reason and message",
			step: Step[scope]{
				Condition: "FooReady", Reason: "Provisioned",
				Message: func(s *scope) string { return "endpoint " + s.obj.Spec.Endpoint },
			},
			want: state{"True", "Provisioned", "endpoint e"},
		},
		{
			name: "ReasonOf wins",
			step: Step[scope]{
				Condition: "FooReady", Reason: "Provisioned",
				ReasonOf: func(s *scope) string { return "Endpoint" + s.obj.Spec.Endpoint },
			},
			want: state{"True", "Endpointe", ""},
		},
		{
			name: "an empty ReasonOf",
			step: Step[scope]{Condition: "FooReady", Reason: "Provisioned", ReasonOf: func(*scope) string { return "" }},
			want: state{"True", "Provisioned", ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := newThing(func(o *thing) { o.Spec.Endpoint = "e" })
			tt.step.Run = step("", returns(nil)).Run

			runSteps(t.Context(), obj, []Step[scope]{tt.step}, &scope{obj: obj})

			g.Expect(stateOf(obj, tt.step.Condition)).To(Equal(tt.want))
		})
	}
}

func TestRunSteps_continuesAfterAnInformationalWait(t *testing.T) {
	g := NewWithT(t)
	obj := newThing()
	s := &scope{}
	drift := step(networkReady, returns(fault.WaitFor(time.Minute, "DriftDetected", "1 resource")))
	drift.Informational = true
	steps := []Step[scope]{drift, step(endpointReady, returns(nil))}

	o := runSteps(t.Context(), obj, steps, s)
	summarise(obj, summarisedTypes(steps), o)

	g.Expect(s.ran).To(Equal([]string{networkReady, endpointReady}))
	g.Expect(stateOf(obj, networkReady)).To(Equal(state{"False", "DriftDetected", "1 resource"}))
	g.Expect(stateOf(obj, "Ready").status).To(BeEquivalentTo("True"), "Ready ignores it")
	g.Expect(o.requeueAfter).To(Equal(time.Minute), "its delay is kept")
}

func TestRunSteps_stopsAtAnInformationalStepThatFails(t *testing.T) {
	g := NewWithT(t)
	s := &scope{}
	broken := step(networkReady, returns(errors.New("boom")))
	broken.Informational = true

	o := runSteps(t.Context(), newThing(), []Step[scope]{broken, step(endpointReady, returns(nil))}, s)

	g.Expect(o.class).To(Equal(failed))
	g.Expect(s.ran).To(Equal([]string{networkReady}))
}

func TestRunSteps_continueIf(t *testing.T) {
	later := fault.WaitFor(time.Minute, "Later", "later")
	tests := []struct {
		name string
		end  error
		// continues is the result of ContinueIf of the first step, last the error
		// of the last step.
		continues bool
		last      error
		ran       int
		want      class
		reason    string
	}{
		{"a wait", fault.Wait("Upgrading", "u"), true, nil, 3, waiting, "Upgrading"},
		{"a stall", fault.Stall("RunFailed", "r"), true, nil, 3, stalled, "RunFailed"},
		{"not if ContinueIf is false", fault.Wait("Upgrading", "u"), false, nil, 1, waiting, "Upgrading"},
		{"not after a failure", errors.New("boom"), true, nil, 1, failed, "InternalError"},
		{"the first wait is reported", fault.Wait("Upgrading", "u"), true, later, 3, waiting, "Upgrading"},
		{"a later failure wins", fault.Stall("RunFailed", "r"), true, errors.New("boom"), 3, failed, "RunFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj, s := newThing(), &scope{}
			first := step(networkReady, returns(tt.end))
			first.ContinueIf = func(*scope) bool { return tt.continues }
			steps := []Step[scope]{first, step(networkGone, returns(nil)), step(endpointReady, returns(tt.last))}

			o := runSteps(t.Context(), obj, steps, s)
			summarise(obj, summarisedTypes(steps), o)

			g.Expect(s.ran).To(HaveLen(tt.ran))
			g.Expect(o.class).To(Equal(tt.want))
			g.Expect(stateOf(obj, "Ready").reason).To(Equal(tt.reason))
			if errors.Is(tt.last, later) {
				g.Expect(o.requeueAfter).To(Equal(time.Minute), "the delay of a later step is kept")
			}
		})
	}
}

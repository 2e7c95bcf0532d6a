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

func TestWalk_conditionsFollowFromErrors(t *testing.T) {
	was := withCondition(metav1.Condition{Type: networkReady, Status: metav1.ConditionTrue, Reason: "Before"})
	tests := []struct {
		name string
		err  error
		want state
		kind kind
	}{
		{name: "nil", err: nil, want: state{"True", "Ready", ""}, kind: passed},
		{
			name: "wait", err: fault.Wait("InProgress", "3 of 9"),
			want: state{"False", "InProgress", "3 of 9"}, kind: waiting,
		},
		{
			name: "wrapped wait", err: fmt.Errorf("making network: %w", fault.Wait("InProgress", "3 of 9")),
			want: state{"False", "InProgress", "3 of 9"}, kind: waiting,
		},
		{
			name: "stall", err: fault.Stall("RunFailed", "denied"),
			want: state{"False", "RunFailed", "denied"}, kind: stalled,
		},
		{
			name: "anything else", err: errors.New("connection refused"),
			want: state{"Unknown", "InternalError", "connection refused"}, kind: failed,
		},
		{
			name: "conflict leaves it as it was", err: fmt.Errorf("updating run: %w", errConflict),
			want: state{"True", "Before", ""}, kind: conflicted,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := newThing(was)

			v := walk(t.Context(), obj, []Step[scope]{step(networkReady, ends(tt.err))}, &scope{})

			g.Expect(v.kind).To(Equal(tt.kind))
			g.Expect(stateOf(obj, networkReady)).To(Equal(tt.want))
			g.Expect(conditions.Get(obj, networkReady).ObservedGeneration).To(BeEquivalentTo(3))
		})
	}
}

func TestWalk_stopsAtTheFirstStepThatDoesNotPass(t *testing.T) {
	for _, err := range []error{
		fault.Wait("W", "w"), fault.Stall("S", "s"), errors.New("boom"), errConflict,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			g := NewWithT(t)
			old := metav1.Condition{Type: networkGone, Status: metav1.ConditionTrue, Reason: "Before"}
			obj := newThing(withCondition(old))
			obj.Generation = 4
			s := &scope{}

			walk(t.Context(), obj, []Step[scope]{
				step(networkReady, ends(nil)), step(endpointReady, ends(err)), step(networkGone, ends(nil)),
			}, s)

			g.Expect(s.ran).To(Equal([]string{networkReady, endpointReady}))
			g.Expect(conditions.Get(obj, networkGone)).To(HaveField("Reason", "Before"))
			g.Expect(conditions.Get(obj, networkGone)).To(HaveField("ObservedGeneration", BeEquivalentTo(3)),
				"a condition of a step not reached says nothing about this generation")
		})
	}
}

func TestWalk_revisits(t *testing.T) {
	in := func(d time.Duration) func(*scope) time.Duration {
		return func(*scope) time.Duration { return d }
	}
	ok := Step[scope]{Run: step("", ends(nil)).Run}
	revisit := func(d time.Duration) Step[scope] { return Step[scope]{Run: ok.Run, RequeueAfter: in(d)} }
	wait := func(err error) Step[scope] { return step(endpointReady, ends(err)) }

	tests := []struct {
		name  string
		steps []Step[scope]
		want  time.Duration
	}{
		{name: "no step asks", steps: []Step[scope]{ok}, want: 0},
		{name: "never", steps: []Step[scope]{revisit(0)}, want: 0},
		{name: "one asks", steps: []Step[scope]{ok, revisit(time.Hour), ok}, want: time.Hour},
		{name: "the soonest counts", steps: []Step[scope]{revisit(time.Hour), revisit(time.Minute)}, want: time.Minute},
		{name: "a passed moment is shortly", steps: []Step[scope]{revisit(-time.Hour)}, want: soon},
		{
			name:  "a wait for a watch does not lose it",
			steps: []Step[scope]{revisit(time.Hour), wait(fault.Wait("W", "w"))}, want: time.Hour,
		},
		{
			name:  "a wait on the clock may be sooner",
			steps: []Step[scope]{revisit(time.Hour), wait(fault.WaitFor(time.Minute, "W", "w"))}, want: time.Minute,
		},
		{
			name:  "a wait on the clock may be later",
			steps: []Step[scope]{revisit(time.Minute), wait(fault.WaitFor(time.Hour, "W", "w"))}, want: time.Minute,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(walk(t.Context(), newThing(), tt.steps, &scope{}).again).To(Equal(tt.want))
		})
	}
}

func TestStep_saysWhyItIsTrue(t *testing.T) {
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
		{name: "another is itself", step: Step[scope]{Condition: "Drained"}, want: state{"True", "Drained", ""}},
		{
			name: "its own reason and message",
			step: Step[scope]{
				Condition: "FooReady", Reason: "Provisioned",
				Message: func(s *scope) string { return "endpoint " + s.obj.Spec.Endpoint },
			},
			want: state{"True", "Provisioned", "endpoint e"},
		},
		{
			name: "a reason out of several",
			step: Step[scope]{
				Condition: "FooReady", Reason: "Provisioned",
				ReasonOf: func(s *scope) string { return "Endpoint" + s.obj.Spec.Endpoint },
			},
			want: state{"True", "Endpointe", ""},
		},
		{
			name: "no reason out of several",
			step: Step[scope]{Condition: "FooReady", Reason: "Provisioned", ReasonOf: func(*scope) string { return "" }},
			want: state{"True", "Provisioned", ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj := newThing(func(o *thing) { o.Spec.Endpoint = "e" })
			tt.step.Run = step("", ends(nil)).Run

			walk(t.Context(), obj, []Step[scope]{tt.step}, &scope{obj: obj})

			g.Expect(stateOf(obj, tt.step.Condition)).To(Equal(tt.want))
		})
	}
}

func TestWalk_continuesAfterAnInformationalWait(t *testing.T) {
	g := NewWithT(t)
	obj := newThing()
	s := &scope{}
	drift := step(networkReady, ends(fault.WaitFor(time.Minute, "DriftDetected", "1 resource")))
	drift.Informational = true
	steps := []Step[scope]{drift, step(endpointReady, ends(nil))}

	v := walk(t.Context(), obj, steps, s)
	summarise(obj, counted(steps), v)

	g.Expect(s.ran).To(Equal([]string{networkReady, endpointReady}))
	g.Expect(stateOf(obj, networkReady)).To(Equal(state{"False", "DriftDetected", "1 resource"}))
	g.Expect(stateOf(obj, "Ready").status).To(BeEquivalentTo("True"), "Ready does not count it")
	g.Expect(v.again).To(Equal(time.Minute), "its clock is kept")
}

func TestWalk_stopsAtAnInformationalStepThatFails(t *testing.T) {
	g := NewWithT(t)
	s := &scope{}
	broken := step(networkReady, ends(errors.New("boom")))
	broken.Informational = true

	v := walk(t.Context(), newThing(), []Step[scope]{broken, step(endpointReady, ends(nil))}, s)

	g.Expect(v.kind).To(Equal(failed))
	g.Expect(s.ran).To(Equal([]string{networkReady}))
}

func TestWalk_continuesWhereAStepSaysSo(t *testing.T) {
	later := fault.WaitFor(time.Minute, "Later", "later")
	tests := []struct {
		name string
		end  error
		// continues is what the first step answers, last how the last step ends.
		continues bool
		last   error
		ran    int
		want   kind
		reason string
	}{
		{"a wait", fault.Wait("Upgrading", "u"), true, nil, 3, waiting, "Upgrading"},
		{"a stall", fault.Stall("RunFailed", "r"), true, nil, 3, stalled, "RunFailed"},
		{"not when it says no", fault.Wait("Upgrading", "u"), false, nil, 1, waiting, "Upgrading"},
		{"never after a failure", errors.New("boom"), true, nil, 1, failed, "InternalError"},
		{"the first wait is told", fault.Wait("Upgrading", "u"), true, later, 3, waiting, "Upgrading"},
		{"a failure after it wins", fault.Stall("RunFailed", "r"), true, errors.New("boom"), 3, failed, "RunFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			obj, s := newThing(), &scope{}
			first := step(networkReady, ends(tt.end))
			first.ContinueIf = func(*scope) bool { return tt.continues }
			steps := []Step[scope]{first, step(networkGone, ends(nil)), step(endpointReady, ends(tt.last))}

			v := walk(t.Context(), obj, steps, s)
			summarise(obj, counted(steps), v)

			g.Expect(s.ran).To(HaveLen(tt.ran))
			g.Expect(v.kind).To(Equal(tt.want))
			g.Expect(stateOf(obj, "Ready").reason).To(Equal(tt.reason))
			if errors.Is(tt.last, later) {
				g.Expect(v.again).To(Equal(time.Minute), "the clock of a later step is kept")
			}
		})
	}
}

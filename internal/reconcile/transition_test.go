package reconcile

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

func TestTransitions(t *testing.T) {
	before := []condition{
		{Type: "Same", Status: "True", Reason: "R", Message: "old"},
		{Type: "Status", Status: "False", Reason: "R"},
		{Type: "Reason", Status: "False", Reason: "Old"},
		{Type: "Removed", Status: "True", Reason: "R"},
	}
	after := []condition{
		{Type: "New", Status: "False", Reason: "R"},
		{Type: "Same", Status: "True", Reason: "R", Message: "new", ObservedGeneration: 2},
		{Type: "Status", Status: "True", Reason: "R"},
		{Type: "Reason", Status: "False", Reason: "New"},
	}
	NewWithT(t).Expect(transitions(before, after)).To(Equal([]transition{
		{previous: condition{Type: "New"}, current: after[0]},
		{previous: before[1], current: after[2]},
		{previous: before[2], current: after[3]},
	}))
}

func TestReconcile_announcesTransitionsOnce(t *testing.T) {
	g := NewWithT(t)
	server := newAPIServer(t, newThing())
	var err error
	frame := newTestFrame(server, step(networkReady, func() error { return err }))
	var announced []string
	frame.OnTransition = func(_ context.Context, s *scope, obj *thing, previous, current condition) {
		g.Expect(s).NotTo(BeNil())
		g.Expect(stateOf(server.get(), current.Type)).To(Equal(stateOf(obj, current.Type)), "announced before it was written")
		announced = append(announced, current.Type+": "+string(previous.Status)+previous.Reason+" to "+string(current.Status)+current.Reason)
	}
	run := func() []string {
		announced = nil
		_, e := frame.reconcile(t)
		g.Expect(e).NotTo(HaveOccurred())
		return announced
	}

	err = fault.Wait("InProgress", "1 of 2")
	g.Expect(run()).To(ConsistOf(
		"NetworkReady:  to FalseInProgress", "Ready:  to FalseInProgress", "Paused:  to FalseNotPaused",
	))
	g.Expect(run()).To(BeEmpty())
	err = fault.Wait("InProgress", "2 of 2")
	g.Expect(run()).To(BeEmpty(), "a new message alone is not a transition")
	err = fault.Stall("RunFailed", "denied")
	g.Expect(run()).To(ConsistOf(
		"NetworkReady: FalseInProgress to FalseRunFailed", "Ready: FalseInProgress to FalseRunFailed",
	))
	err = nil
	g.Expect(run()).To(ConsistOf(
		"NetworkReady: FalseRunFailed to TrueReady", "Ready: FalseRunFailed to TrueReady",
	))
}

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
		{was: condition{Type: "New"}, is: after[0]},
		{was: before[1], is: after[2]},
		{was: before[2], is: after[3]},
	}))
}

func TestReconcile_tellsTransitionsOnce(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, newThing())
	var err error
	b := newBench(w, step(networkReady, func() error { return err }))
	var told []string
	b.OnTransition = func(_ context.Context, s *scope, obj *thing, was, is condition) {
		g.Expect(s).NotTo(BeNil())
		g.Expect(stateOf(w.get(), is.Type)).To(Equal(stateOf(obj, is.Type)), "told before it was written")
		told = append(told, is.Type+": "+string(was.Status)+was.Reason+" to "+string(is.Status)+is.Reason)
	}
	run := func() []string {
		told = nil
		_, e := b.reconcile(t)
		g.Expect(e).NotTo(HaveOccurred())
		return told
	}

	err = fault.Wait("InProgress", "1 of 2")
	g.Expect(run()).To(ConsistOf(
		"NetworkReady:  to FalseInProgress", "Ready:  to FalseInProgress", "Paused:  to FalseNotPaused",
	))
	g.Expect(run()).To(BeEmpty())
	err = fault.Wait("InProgress", "2 of 2")
	g.Expect(run()).To(BeEmpty(), "a message alone is no transition")
	err = fault.Stall("RunFailed", "denied")
	g.Expect(run()).To(ConsistOf(
		"NetworkReady: FalseInProgress to FalseRunFailed", "Ready: FalseInProgress to FalseRunFailed",
	))
	err = nil
	g.Expect(run()).To(ConsistOf(
		"NetworkReady: FalseRunFailed to TrueReady", "Ready: FalseRunFailed to TrueReady",
	))
}

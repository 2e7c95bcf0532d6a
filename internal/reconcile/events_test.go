package reconcile

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

const (
	unset   = metav1.ConditionStatus("")
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func TestEventTable(t *testing.T) {
	table := EventTable{
		Rules: []EventRule{
			{Conditions: []string{"Checked"}, When: BecomesFalse, Type: corev1.EventTypeWarning, Action: "Check"},
			{Conditions: []string{"Checked"}, When: Recovers, Action: "Check"},
			{Conditions: []string{"Progressing"}, Reasons: []string{"Complete"}, Action: "RollOut", Message: "All machines are available"},
			{Conditions: []string{"Progressing"}, Reasons: []string{"Complete", "Late"}, Action: "Late"},
			{Conditions: []string{"Applied", "Destroyed"}, Action: "Run"},
		},
		Warnings: []string{"Failed", "Late"},
	}
	tests := []struct {
		name     string
		previous metav1.ConditionStatus
		current  metav1.Condition
		want     Event
	}{
		{"the action of the rule", no, condition{Type: "Applied", Status: yes, Reason: "Done", Message: "3 resources"}, Event{"Normal", "Done", "Run", "3 resources"}},
		{"another condition of the rule", no, condition{Type: "Destroyed", Status: no, Reason: "Running", Message: "1 of 3"}, Event{"Normal", "Running", "Run", "1 of 3"}},
		{"a message is never empty", no, condition{Type: "Applied", Status: yes, Reason: "Done"}, Event{"Normal", "Done", "Run", "Applied is True"}},
		{"a warning reason", no, condition{Type: "Applied", Status: no, Reason: "Failed", Message: "denied"}, Event{"Warning", "Failed", "Run", "denied"}},
		{"an unknown condition is a warning", no, condition{Type: "Applied", Status: unknown, Reason: "InternalError", Message: "timeout"}, Event{"Warning", "InternalError", "Run", "timeout"}},
		{"a rule with a type", yes, condition{Type: "Checked", Status: no, Reason: "Odd", Message: "m"}, Event{"Warning", "Odd", "Check", "m"}},
		{"the next rule of the condition", no, condition{Type: "Checked", Status: yes, Reason: "Checked", Message: "m"}, Event{"Normal", "Checked", "Check", "m"}},
		{"no rule of the condition matches", unset, condition{Type: "Checked", Status: yes, Reason: "Checked", Message: "m"}, Event{}},
		{"an unknown condition that no rule matches", no, condition{Type: "Checked", Status: unknown, Reason: "InternalError"}, Event{}},
		{"the first rule of two", no, condition{Type: "Progressing", Status: yes, Reason: "Complete", Message: "3 of 3"}, Event{"Normal", "Complete", "RollOut", "All machines are available"}},
		{"a rule with several reasons", no, condition{Type: "Progressing", Status: no, Reason: "Late", Message: "2 of 3"}, Event{"Warning", "Late", "Late", "2 of 3"}},
		{"a reason without a rule", no, condition{Type: "Progressing", Status: yes, Reason: "Updating"}, Event{}},
		{"a condition without a rule", no, condition{Type: "Other", Status: yes, Reason: "Failed"}, Event{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			event, ok := table.Event(condition{Type: tt.current.Type, Status: tt.previous}, tt.current)
			g.Expect(event).To(Equal(tt.want))
			g.Expect(ok).To(Equal(tt.want != Event{}))
		})
	}
}

func TestEventTable_coversEveryConditionByDefault(t *testing.T) {
	g := NewWithT(t)
	table := EventTable{Rules: []EventRule{{}}}

	event, ok := table.Event(condition{}, condition{Type: "NodeReady", Status: yes, Reason: "Ready", Message: "m"})
	g.Expect(ok).To(BeTrue())
	g.Expect(event).To(Equal(Event{"Normal", "Ready", "NodeReady", "m"}))

	for _, conditionType := range []string{clusterv1.ReadyCondition, clusterv1.PausedCondition} {
		_, ok := table.Event(condition{}, condition{Type: conditionType, Status: yes, Reason: "Ready"})
		g.Expect(ok).To(BeFalse(), conditionType)
	}
	ready := EventTable{Rules: []EventRule{{Conditions: []string{clusterv1.ReadyCondition}}}}
	_, ok = ready.Event(condition{}, condition{Type: clusterv1.ReadyCondition, Status: yes, Reason: "Ready"})
	g.Expect(ok).To(BeTrue(), "a rule may name Ready")
}

func TestEventRule_When(t *testing.T) {
	tests := []struct {
		previous, current                                          metav1.ConditionStatus
		becomesTrue, becomesFalse, recovers, problem, notInitially bool
	}{
		{previous: unset, current: yes, becomesTrue: true},
		{previous: unset, current: no, becomesFalse: true, problem: true, notInitially: true},
		{previous: unset, current: unknown, problem: true, notInitially: true},
		{previous: yes, current: yes, becomesTrue: true, notInitially: true},
		{previous: yes, current: no, becomesFalse: true, problem: true, notInitially: true},
		{previous: no, current: yes, becomesTrue: true, recovers: true, problem: true, notInitially: true},
		{previous: no, current: no, becomesFalse: true, problem: true, notInitially: true},
		{previous: no, current: unknown, problem: true, notInitially: true},
		{previous: unknown, current: yes, becomesTrue: true, notInitially: true},
		{previous: unknown, current: no, becomesFalse: true, problem: true, notInitially: true},
	}
	for _, tt := range tests {
		t.Run("from "+string(tt.previous)+" to "+string(tt.current), func(t *testing.T) {
			g := NewWithT(t)
			previous, current := condition{Status: tt.previous}, condition{Status: tt.current}
			g.Expect(BecomesTrue(previous, current)).To(Equal(tt.becomesTrue), "BecomesTrue")
			g.Expect(BecomesFalse(previous, current)).To(Equal(tt.becomesFalse), "BecomesFalse")
			g.Expect(Recovers(previous, current)).To(Equal(tt.recovers), "Recovers")
			g.Expect(HasProblemOrRecovers(previous, current)).To(Equal(tt.problem), "HasProblemOrRecovers")
			g.Expect(IsNotInitiallyTrue(previous, current)).To(Equal(tt.notInitially), "IsNotInitiallyTrue")
		})
	}
}

func TestAnnounce_recordsTheEventOfTheTable(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(2)
	announce := Announce[*thing, scope](recorder, EventTable{Rules: []EventRule{{Conditions: []string{"Applied"}}}})

	announce(t.Context(), nil, newThing(), condition{}, condition{Type: "Other", Status: yes, Reason: "Done", Message: "m"})
	announce(t.Context(), nil, newThing(), condition{}, condition{Type: "Applied", Status: yes, Reason: "Done", Message: "100%s of m"})

	g.Expect(recorder.Events).To(Receive(Equal("Normal Done 100%s of m")))
	g.Expect(recorder.Events).NotTo(Receive())
}

// The API server refuses longer ones.
func TestEvent_truncatesItsMessage(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(1)
	Event{Type: corev1.EventTypeNormal, Reason: "Done", Action: "Run", Message: strings.Repeat("é", 1000)}.Record(recorder, &corev1.Pod{}, nil)
	g.Expect(len(strings.TrimPrefix(<-recorder.Events, "Normal Done "))).To(BeNumerically("<=", maxNote))
}

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

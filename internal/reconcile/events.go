package reconcile

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/appthrust/capt/internal/message"
)

// Event is a Kubernetes event about one object.
type Event struct {
	Type    string // corev1.EventTypeNormal or corev1.EventTypeWarning.
	Reason  string
	Action  string
	Message string
}

// maxNote is the size of the message that the API server accepts, in bytes.
const maxNote = 1024

// Record sends the event. The related object may be nil. The recorder counts events as one that
// differ only in the message, while the object does not change.
func (e Event) Record(recorder events.EventRecorder, regarding, related runtime.Object) {
	recorder.Eventf(regarding, related, e.Type, e.Reason, e.Action, "%s", message.Truncate(e.Message, maxNote))
}

// EventTable selects the condition transitions of a kind that become events.
type EventTable struct {
	// Rules are tried in order. The first one that matches describes the event;
	// a transition without a match causes no event.
	Rules []EventRule

	// Warnings are the condition reasons that require a user's attention.
	Warnings []string
}

// EventRule selects transitions and describes their events.
type EventRule struct {
	// Conditions are the condition types. If empty, the rule applies to all
	// types except Ready, which repeats the others, and Paused.
	Conditions []string

	// Reasons, if set, restricts the rule to these reasons of the new condition.
	Reasons []string

	// When, if set, restricts the rule to the transitions it reports true for.
	When func(previous, current metav1.Condition) bool

	// Type is the type of the event. It defaults to Warning for an Unknown
	// condition and for a reason in EventTable.Warnings, and to Normal otherwise.
	Type string

	// Action is the action of the event. It defaults to the condition type.
	Action string

	// Message replaces the message of the condition.
	Message string
}

// Announce returns a function for Frame.OnTransition that records the events of
// the table.
func Announce[T Object, S any](recorder events.EventRecorder, table EventTable) func(context.Context, *S, T, metav1.Condition, metav1.Condition) {
	return func(_ context.Context, _ *S, obj T, previous, current metav1.Condition) {
		table.Record(recorder, obj, previous, current)
	}
}

// Record sends the event of a transition, if it has one.
func (t EventTable) Record(recorder events.EventRecorder, regarding runtime.Object, previous, current metav1.Condition) {
	if event, ok := t.Event(previous, current); ok {
		event.Record(recorder, regarding, nil)
	}
}

// Event returns the event of a transition, and false if it has none.
func (t EventTable) Event(previous, current metav1.Condition) (Event, bool) {
	i := slices.IndexFunc(t.Rules, func(rule EventRule) bool { return rule.matches(previous, current) })
	if i < 0 {
		return Event{}, false
	}
	rule := t.Rules[i]
	event := Event{Type: rule.Type, Reason: current.Reason, Action: rule.Action, Message: rule.Message}
	if event.Type == "" {
		event.Type = t.typeOf(current)
	}
	if event.Action == "" {
		event.Action = current.Type
	}
	if event.Message == "" {
		event.Message = current.Message
	}
	if event.Message == "" {
		event.Message = current.Type + " is " + string(current.Status)
	}
	return event, true
}

func (t EventTable) typeOf(c metav1.Condition) string {
	if c.Status == metav1.ConditionUnknown || slices.Contains(t.Warnings, c.Reason) {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

func (rule EventRule) matches(previous, current metav1.Condition) bool {
	if len(rule.Conditions) == 0 {
		if current.Type == clusterv1.ReadyCondition || current.Type == clusterv1.PausedCondition {
			return false
		}
	} else if !slices.Contains(rule.Conditions, current.Type) {
		return false
	}
	if len(rule.Reasons) > 0 && !slices.Contains(rule.Reasons, current.Reason) {
		return false
	}
	return rule.When == nil || rule.When(previous, current)
}

// BecomesTrue reports whether a condition is True now.
func BecomesTrue(_, current metav1.Condition) bool {
	return current.Status == metav1.ConditionTrue
}

// BecomesFalse reports whether a condition is False now.
func BecomesFalse(_, current metav1.Condition) bool {
	return current.Status == metav1.ConditionFalse
}

// Recovers reports whether a condition that was False is True now.
func Recovers(previous, current metav1.Condition) bool {
	return previous.Status == metav1.ConditionFalse && current.Status == metav1.ConditionTrue
}

// HasProblemOrRecovers reports whether a condition is not True now, or was
// False and is True now.
func HasProblemOrRecovers(previous, current metav1.Condition) bool {
	return current.Status != metav1.ConditionTrue || Recovers(previous, current)
}

// IsNotInitiallyTrue reports whether a condition was set before or is not True
// now.
func IsNotInitiallyTrue(previous, current metav1.Condition) bool {
	return previous.Status != "" || current.Status != metav1.ConditionTrue
}

// transition is a condition whose status or reason changed.
type transition struct {
	previous, current metav1.Condition
}

// transitions returns the differences between two sets of conditions, in the
// order of the newer one. The previous value of a new condition has only its
// type. Stalled repeats another condition.
func transitions(before, after []metav1.Condition) []transition {
	var changed []transition
	for _, current := range after {
		previous := meta.FindStatusCondition(before, current.Type)
		if previous == nil {
			previous = &metav1.Condition{Type: current.Type}
		}
		if current.Type != StalledCondition && (previous.Status != current.Status || previous.Reason != current.Reason) {
			changed = append(changed, transition{previous: *previous, current: current})
		}
	}
	return changed
}

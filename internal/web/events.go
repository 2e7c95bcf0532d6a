package web

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/message"
)

const (
	// maxEvents limits the events that are kept.
	maxEvents = 2000
	// maxMessage limits the messages in lists.
	maxMessage = 160
)

// eventLog holds the latest events.
type eventLog struct {
	// entries are in the order of their last times.
	entries []loggedEvent
	number  int64
}

// loggedEvent is an event with the number of its addition.
type loggedEvent struct {
	Event
	number int64
}

// add adds an event, or moves it if it happened again. It returns false if nothing changed:
// the event is known, or older than all of a full log.
func (l *eventLog) add(event Event) bool {
	if i := slices.IndexFunc(l.entries, func(e loggedEvent) bool { return e.ID == event.ID }); i >= 0 {
		if l.entries[i].Count == event.Count {
			return false
		}
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	place := len(l.entries)
	for place > 0 && l.entries[place-1].Last.After(event.Last.Time) {
		place--
	}
	if len(l.entries) == maxEvents {
		if place == 0 {
			return false
		}
		l.entries = slices.Delete(l.entries, 0, 1)
		place--
	}
	l.number++
	l.entries = slices.Insert(l.entries, place, loggedEvent{event, l.number})
	return true
}

// newEvent returns the event of an object of Cluster API or CAPT.
func newEvent(event *corev1.Event) (Event, bool) {
	if !isClusterAPI(event.InvolvedObject.APIVersion) {
		return Event{}, false
	}
	last := event.LastTimestamp
	if last.IsZero() && event.Series != nil {
		last = metav1.NewTime(event.Series.LastObservedTime.Time)
	}
	if last.IsZero() {
		last = metav1.NewTime(event.EventTime.Time)
	}
	if last.IsZero() {
		last = event.CreationTimestamp
	}
	count := event.Count
	if event.Series != nil {
		count = event.Series.Count
	}
	return Event{
		ID: string(event.UID), Namespace: event.Namespace, Kind: event.InvolvedObject.Kind, Name: event.InvolvedObject.Name,
		Warning: event.Type == corev1.EventTypeWarning, Reason: event.Reason, Message: message.Truncate(event.Message, 4*maxMessage),
		Count: count, Last: metav1.NewTime(last.Truncate(time.Second)),
	}, true
}

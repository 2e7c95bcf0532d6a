package web

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lists are in the order of names.
func TestEventLog_keepsTheLatest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	start := time.Now().Truncate(time.Second)
	event := func(i int, count int32) Event {
		return Event{ID: fmt.Sprint(i), Count: count, Last: metav1.NewTime(start.Add(time.Duration(i) * time.Second))}
	}
	var log eventLog
	for i := maxEvents + 100; i > 0; i-- {
		g.Expect(log.add(event(i, 1))).To(Equal(i > 100), "event %d", i)
	}
	g.Expect(log.entries).To(HaveLen(maxEvents))
	g.Expect(log.entries[0].ID).To(Equal("101"))
	g.Expect(log.entries[maxEvents-1].ID).To(Equal(fmt.Sprint(maxEvents + 100)))

	view := &eventsView{}
	sent := func() []Event {
		events := view.events(&objects{events: log}, nil, false)
		if len(events) == 0 {
			return nil
		}
		return events[0].data.([]Event)
	}
	g.Expect(sent()).To(HaveLen(maxEvents))
	g.Expect(log.add(event(50, 1))).To(BeFalse(), "an event that was forgotten")
	g.Expect(log.add(event(200, 1))).To(BeFalse(), "an event that is known")
	again := event(maxEvents+200, 2)
	again.ID = "200"
	g.Expect(log.add(again)).To(BeTrue())
	g.Expect(log.entries[maxEvents-1].ID).To(Equal("200"))
	g.Expect(sent()).To(ConsistOf(again), "only what is new")
	g.Expect(sent()).To(BeEmpty())
}

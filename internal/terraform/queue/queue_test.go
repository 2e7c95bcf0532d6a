package queue_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/queue"
)

func key(namespace string, n int) queue.Key {
	return queue.Key{Namespace: namespace, Name: fmt.Sprint(n)}
}

func TestQueue_doesNotStarveOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 2}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	for i := range 500 {
		q.Acquire(key("busy", i), queue.Group{})
	}
	ok, position := q.Acquire(key("quiet", 0), queue.Group{})
	g.Expect(ok).To(BeFalse())
	g.Expect(position.Ahead).To(Equal(498))

	q.Release(key("busy", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("quiet", 0)}), "the first free slot goes to the namespace without a slot")
}

func TestQueue_alternatesBetweenNamespaces(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	g.Expect(acquired(q.Acquire(key("a", 0), queue.Group{}))).To(BeTrue())
	for i := 1; i < 3; i++ {
		q.Acquire(key("a", i), queue.Group{})
		q.Acquire(key("b", i), queue.Group{})
	}
	for _, k := range []queue.Key{key("a", 0), key("b", 1), key("a", 1), key("b", 2)} {
		q.Release(k)
	}
	g.Expect(granted).To(Equal([]queue.Key{key("b", 1), key("a", 1), key("b", 2), key("a", 2)}))
}

func TestQueue_leavesSlotsToOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 3, PerNamespace: 2}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	for i := range 2 {
		g.Expect(acquired(q.Acquire(key("busy", i), queue.Group{}))).To(BeTrue())
	}
	g.Expect(acquired(q.Acquire(key("busy", 2), queue.Group{}))).To(BeFalse())
	g.Expect(acquired(q.Acquire(key("quiet", 0), queue.Group{}))).To(BeTrue(), "it does not wait for the runs of the other one")
	q.Release(key("quiet", 0))
	g.Expect(granted).To(BeEmpty())
	q.Release(key("busy", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("busy", 2)}))
}

func TestQueue_enforcesTheLimitOfAGroup(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 10}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	slow := queue.Group{Name: "slow", Limit: 1}
	g.Expect(acquired(q.Acquire(key("a", 0), slow))).To(BeTrue())
	g.Expect(acquired(q.Acquire(key("a", 1), slow))).To(BeFalse())
	g.Expect(acquired(q.Acquire(key("a", 2), queue.Group{}))).To(BeTrue(), "a full group does not delay other groups")
	q.Release(key("a", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("a", 1)}))
}

// One team must not keep a lent provider config from the others.
func TestQueue_sharesALentGroupBetweenNamespaces(t *testing.T) {
	lent := func(limit int, namespace string) queue.Group {
		return queue.Group{Name: "platform/aws", Limit: limit, Namespace: namespace}
	}
	for limit, share := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} {
		g := NewWithT(t)
		var granted []queue.Key
		q := queue.New(queue.Limits{Total: 100}, time.Now, func(k queue.Key) { granted = append(granted, k) })
		started := 0
		for i := range 10 {
			if acquired(q.Acquire(key("platform", i), lent(limit, "busy"))) {
				started++
			}
		}
		g.Expect(started).To(Equal(share), "limit %d", limit)
		if share < limit {
			g.Expect(acquired(q.Acquire(key("platform", 10), lent(limit, "quiet")))).To(BeTrue(), "another namespace does not wait, limit %d", limit)
		}
		q.Release(key("platform", 0))
		g.Expect(granted).To(Equal([]queue.Key{key("platform", share)}), "limit %d", limit)
	}
	g := NewWithT(t)
	q := queue.New(queue.Limits{Total: 100}, time.Now, func(queue.Key) {})
	for i := range 3 {
		g.Expect(acquired(q.Acquire(key("platform", i), lent(3, "")))).To(BeTrue(), "the owner of the provider config may use all of it")
	}
}

func TestQueue_countsHeldSlots(t *testing.T) {
	g := NewWithT(t)
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(queue.Key) {})
	q.Hold(key("a", 0), queue.Group{})
	q.Hold(key("a", 1), queue.Group{})
	g.Expect(acquired(q.Acquire(key("a", 1), queue.Group{}))).To(BeTrue(), "the key holds a slot")
	g.Expect(acquired(q.Acquire(key("a", 2), queue.Group{}))).To(BeFalse())
	q.Release(key("a", 0))
	g.Expect(acquired(q.Acquire(key("a", 2), queue.Group{}))).To(BeFalse(), "the limit is still reached")
	q.Release(key("a", 1))
	g.Expect(acquired(q.Acquire(key("a", 2), queue.Group{}))).To(BeTrue())
}

func TestQueue_removesReleasedKeys(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	q.Acquire(key("a", 0), queue.Group{})
	q.Acquire(key("a", 1), queue.Group{})
	q.Acquire(key("a", 2), queue.Group{})
	q.Release(key("a", 1))
	q.Release(key("a", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("a", 2)}))
	running, waiting := q.Len()
	g.Expect([]int{running, waiting}).To(Equal([]int{1, 0}))
}

func TestQueue_returnsThePosition(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := start
	q := queue.New(queue.Limits{Total: 1}, func() time.Time { now = now.Add(time.Second); return now }, func(queue.Key) {})
	type answer struct {
		acquired bool
		position queue.Position
	}
	acquire := func(n int) answer {
		ok, position := q.Acquire(key("a", n), queue.Group{})
		return answer{ok, position}
	}
	for range 2 {
		// Repeated calls neither change the time nor add another ticket.
		g.Expect(acquire(0)).To(Equal(answer{true, queue.Position{Since: start.Add(time.Second)}}))
		g.Expect(acquire(1)).To(Equal(answer{false, queue.Position{Since: start.Add(2 * time.Second)}}))
		g.Expect(acquire(2)).To(Equal(answer{false, queue.Position{Ahead: 1, Since: start.Add(3 * time.Second)}}))
	}
	running, waiting := q.Len()
	g.Expect([]int{running, waiting}).To(Equal([]int{1, 2}))
	q.Release(key("a", 0))
	g.Expect(acquire(1)).To(Equal(answer{true, queue.Position{Since: start.Add(2 * time.Second)}}))
}

func TestQueue_updatesTheGroupOfAWaitingKey(t *testing.T) {
	g := NewWithT(t)
	q := queue.New(queue.Limits{Total: 10}, time.Now, func(queue.Key) {})
	slow := queue.Group{Name: "slow", Limit: 1}
	q.Acquire(key("a", 0), slow)
	g.Expect(acquired(q.Acquire(key("a", 1), slow))).To(BeFalse())
	g.Expect(acquired(q.Acquire(key("a", 1), queue.Group{Name: "slow", Limit: 2}))).To(BeTrue())
}

func TestQueue_servesANamespaceInOrderOfArrival(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	for i := range 4 {
		q.Acquire(key("a", i), queue.Group{})
	}
	for i := range 3 {
		q.Release(key("a", i))
	}
	g.Expect(granted).To(Equal([]queue.Key{key("a", 1), key("a", 2), key("a", 3)}))
}

func TestQueue_doesNotAnnounceTheCaller(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 2}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	g.Expect(acquired(q.Acquire(key("a", 0), queue.Group{}))).To(BeTrue())
	g.Expect(granted).To(BeEmpty())
}

func TestQueue_holdKeepsAnAcquiredSlot(t *testing.T) {
	g := NewWithT(t)
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(queue.Key) {})
	q.Acquire(key("a", 0), queue.Group{})
	q.Acquire(key("a", 1), queue.Group{})
	_, before := q.Acquire(key("a", 0), queue.Group{})
	q.Hold(key("a", 0), queue.Group{})
	_, after := q.Acquire(key("a", 0), queue.Group{})
	g.Expect(after).To(Equal(before))
	q.Hold(key("a", 1), queue.Group{})
	running, waiting := q.Len()
	g.Expect([]int{running, waiting}).To(Equal([]int{2, 0}), "a held key no longer waits")
}

func acquired(ok bool, _ queue.Position) bool { return ok }

// Checks must not delay the run that repairs what they complain about, nor may other namespaces.
func TestQueue_grantsBackgroundRunsLast(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 1}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	background := queue.Group{Background: true}
	for i := range 6 {
		q.Acquire(key("a", i), background)
	}
	q.Acquire(key("b", 0), background)
	q.Acquire(key("a", 7), queue.Group{})
	q.Acquire(key("a", 8), queue.Group{})
	for _, k := range []queue.Key{key("a", 0), key("b", 0), key("a", 7), key("a", 8)} {
		q.Release(k)
	}
	g.Expect(granted).To(Equal([]queue.Key{key("b", 0), key("a", 7), key("a", 8), key("a", 1)}), "within the namespace")

	q.Acquire(key("a", 5), queue.Group{})
	q.Release(key("a", 1))
	g.Expect(granted[4]).To(Equal(key("a", 5)), "a check that becomes an apply while it waits")
}

func TestQueue_doesNotStarveBackgroundRuns(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 1}, func() time.Time { return now }, func(k queue.Key) { granted = append(granted, k) })
	q.Acquire(key("a", 0), queue.Group{})
	q.Acquire(key("a", 1), queue.Group{Background: true})
	now = now.Add(20 * time.Minute)
	g.Expect(q.LongestWait()).To(BeZero())
	q.Acquire(key("a", 2), queue.Group{})
	now = now.Add(10 * time.Minute)
	g.Expect(q.LongestWait()).To(Equal(10 * time.Minute))
	q.Release(key("a", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("a", 1)}))
}

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
	q := queue.New(2, time.Now, func(k queue.Key) { granted = append(granted, k) })
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
	q := queue.New(1, time.Now, func(k queue.Key) { granted = append(granted, k) })
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

func TestQueue_enforcesTheLimitOfAGroup(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(10, time.Now, func(k queue.Key) { granted = append(granted, k) })
	slow := queue.Group{Name: "slow", Limit: 1}
	g.Expect(acquired(q.Acquire(key("a", 0), slow))).To(BeTrue())
	g.Expect(acquired(q.Acquire(key("a", 1), slow))).To(BeFalse())
	g.Expect(acquired(q.Acquire(key("a", 2), queue.Group{}))).To(BeTrue(), "a full group does not delay other groups")
	q.Release(key("a", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("a", 1)}))
}

func TestQueue_countsHeldSlots(t *testing.T) {
	g := NewWithT(t)
	q := queue.New(1, time.Now, func(queue.Key) {})
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
	q := queue.New(1, time.Now, func(k queue.Key) { granted = append(granted, k) })
	q.Acquire(key("a", 0), queue.Group{})
	q.Acquire(key("a", 1), queue.Group{})
	q.Acquire(key("a", 2), queue.Group{})
	q.Release(key("a", 1))
	q.Release(key("a", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("a", 2)}))
	running, waiting := q.Len()
	g.Expect([]int{running, waiting}).To(Equal([]int{1, 0}))
}

func acquired(ok bool, _ queue.Position) bool { return ok }

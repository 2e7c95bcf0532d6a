package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform/queue"
)

func key(namespace string, n int) queue.Key {
	return queue.Key{Namespace: namespace, Name: fmt.Sprint(n)}
}

// play executes a script: "a0 runs" and "a0 waits" are what Acquire answers, "a0 is held" calls
// Hold, and "a0 ends, b0 starts" calls Release, after which those that start are announced. A
// script names the group of a key before it is acquired: "a0 runs in slow".
func play(t *testing.T, limits queue.Limits, groups map[string]queue.Group, script string) {
	t.Helper()
	g := NewWithT(t)
	var granted []string
	q := queue.New(limits, time.Now, func(k queue.Key) { granted = append(granted, k.Namespace+k.Name) })
	for step := range strings.SplitSeq(script, ", ") {
		words := append(strings.Fields(step), "", "")
		k := queue.Key{Namespace: words[0][:1], Name: words[0][1:]}
		if words[1] != "starts" {
			g.Expect(granted).To(BeEmpty(), "before: %s", step)
		}
		switch words[1] {
		case "runs", "waits":
			ok, _ := q.Acquire(k, groups[words[len(words)-3]])
			g.Expect(ok).To(Equal(words[1] == "runs"), step)
		case "is":
			q.Hold(k, queue.Group{})
		case "ends":
			q.Release(k)
		case "starts":
			g.Expect(granted).NotTo(BeEmpty(), step)
			g.Expect(granted[0]).To(Equal(words[0]), step)
			granted = granted[1:]
		default:
			t.Fatalf("unknown step %q", step)
		}
	}
	g.Expect(granted).To(BeEmpty())
}

func TestQueue(t *testing.T) {
	groups := map[string]queue.Group{"slow": {Name: "slow", Limit: 1}, "faster": {Name: "slow", Limit: 2}, "background": {Background: true}}
	for name, tt := range map[string]struct {
		limits queue.Limits
		script string
	}{
		"alternates between namespaces": {
			queue.Limits{Total: 1},
			"a0 runs, a1 waits, b1 waits, a2 waits, b2 waits, a0 ends, b1 starts, b1 ends, a1 starts, a1 ends, b2 starts, b2 ends, a2 starts",
		},
		"leaves slots to other namespaces": {
			queue.Limits{Total: 3, PerNamespace: 2},
			"a0 runs, a1 runs, a2 waits, b0 runs, b0 ends, a0 ends, a2 starts",
		},
		"enforces the limit of a group and delays no others": {
			queue.Limits{Total: 10},
			"a0 runs in slow, a1 waits in slow, a2 runs, a0 ends, a1 starts",
		},
		"updates the group of a waiting key": {queue.Limits{Total: 10}, "a0 runs in slow, a1 waits in slow, a1 runs in faster"},
		"counts held slots": {
			queue.Limits{Total: 1},
			"a0 is held, a1 is held, a1 runs, a2 waits, a0 ends, a2 waits, a1 ends, a2 starts, a2 runs",
		},
		"removes released keys":                  {queue.Limits{Total: 1}, "a0 runs, a1 waits, a2 waits, a1 ends, a0 ends, a2 starts"},
		"serves a namespace in order of arrival": {queue.Limits{Total: 1}, "a0 runs, a1 waits, a2 waits, a3 waits, a0 ends, a1 starts, a1 ends, a2 starts, a2 ends, a3 starts"},
		// Checks must not delay the run that repairs what they complain about, nor other namespaces.
		"grants background runs last": {
			queue.Limits{Total: 1},
			"a0 runs in background, a1 waits in background, a5 waits in background, b0 waits in background, a7 waits, a8 waits, " +
				"a0 ends, b0 starts, b0 ends, a7 starts, a7 ends, a8 starts, a8 ends, a1 starts, a5 waits, a1 ends, a5 starts",
		},
		"prefers a check that becomes an apply": {
			queue.Limits{Total: 1}, "a0 runs, a1 waits in background, a2 waits in background, a2 waits, a0 ends, a2 starts",
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, tt.limits, groups, tt.script) })
	}
}

func TestQueue_doesNotStarveOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	var granted []queue.Key
	q := queue.New(queue.Limits{Total: 2}, time.Now, func(k queue.Key) { granted = append(granted, k) })
	for i := range 500 {
		q.Acquire(key("busy", i), queue.Group{})
	}
	ok, _ := q.Acquire(key("quiet", 0), queue.Group{})
	g.Expect(ok).To(BeFalse())

	q.Release(key("busy", 0))
	g.Expect(granted).To(Equal([]queue.Key{key("quiet", 0)}), "the first free slot goes to the namespace without a slot")
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

func TestQueue_returnsSinceWhenAKeyWaits(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := start
	q := queue.New(queue.Limits{Total: 1}, func() time.Time { now = now.Add(time.Second); return now }, func(queue.Key) {})
	type answer struct {
		acquired bool
		since    time.Time
	}
	acquire := func(n int) answer {
		ok, since := q.Acquire(key("a", n), queue.Group{})
		return answer{ok, since}
	}
	for range 2 {
		// Repeated calls neither change the time nor add another ticket.
		g.Expect(acquire(0)).To(Equal(answer{true, start.Add(time.Second)}))
		g.Expect(acquire(1)).To(Equal(answer{false, start.Add(2 * time.Second)}))
		g.Expect(acquire(2)).To(Equal(answer{false, start.Add(3 * time.Second)}))
	}
	running, waiting := q.Len()
	g.Expect([]int{running, waiting}).To(Equal([]int{1, 2}))
	q.Release(key("a", 0))
	g.Expect(acquire(1)).To(Equal(answer{true, start.Add(2 * time.Second)}))
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

func acquired(ok bool, _ time.Time) bool { return ok }

// Checks must not delay the run that repairs what they complain about, nor may other namespaces.
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

// Package queue decides which runs go on at once: no more than a limit in all
// and for each group, and fairly between namespaces, so that one with hundreds
// of waiting runs does not keep another from its first.
package queue

import (
	"slices"
	"sync"
	"time"
)

// Key names who wants to run.
type Key struct{ Namespace, Name string }

// Group is a set of runs with a limit of its own; a limit of 0 is none.
type Group struct {
	Name  string
	Limit int
}

// Queue holds slots. It lives in memory: after a restart the runs that go on
// take their slots again with Hold.
type Queue struct {
	limit int
	now   func() time.Time
	// granted is called, without locks held, for each waiting key that got a
	// slot; it must not block.
	granted func(Key)

	mu      sync.Mutex
	running map[Key]ticket
	waiting []ticket
	// served is when a namespace last got a slot, as a counter.
	served  map[string]uint64
	counter uint64
}

type ticket struct {
	key   Key
	group Group
	since time.Time
}

// New returns a queue with limit slots.
func New(limit int, now func() time.Time, granted func(Key)) *Queue {
	return &Queue{limit: limit, now: now, granted: granted, running: map[Key]ticket{}, served: map[string]uint64{}}
}

// Position is where a key waits.
type Position struct {
	// Ahead is how many wait in front of it, by order of arrival.
	Ahead int
	// Since is when it began to wait.
	Since time.Time
}

// Acquire asks for a slot. It returns true if the key has one now, and since
// when it had waited for it; otherwise the key waits, and granted is called when it gets one. Asking again changes
// nothing.
func (q *Queue) Acquire(key Key, group Group) (bool, Position) {
	q.mu.Lock()
	if t, running := q.running[key]; running {
		q.mu.Unlock()
		return true, Position{Since: t.since}
	}
	at := slices.IndexFunc(q.waiting, func(t ticket) bool { return t.key == key })
	if at < 0 {
		q.waiting = append(q.waiting, ticket{key: key, group: group, since: q.now()})
	} else {
		q.waiting[at].group = group
	}
	grants := q.grant()
	t, running := q.running[key]
	position := Position{Since: t.since}
	if at = slices.IndexFunc(q.waiting, func(t ticket) bool { return t.key == key }); at >= 0 {
		position = Position{Ahead: at, Since: q.waiting[at].since}
	}
	q.mu.Unlock()
	q.announce(grants, key)
	return running, position
}

// Hold takes a slot for a run that goes on already, whatever the limits say.
func (q *Queue) Hold(key Key, group Group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(key)
	if _, running := q.running[key]; running {
		return
	}
	q.running[key] = ticket{key: key, group: group}
}

// Release gives back the slot of a key, or its place in the queue.
func (q *Queue) Release(key Key) {
	q.mu.Lock()
	delete(q.running, key)
	q.leave(key)
	grants := q.grant()
	q.mu.Unlock()
	q.announce(grants, key)
}

// Len returns how many run and how many wait.
func (q *Queue) Len() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.running), len(q.waiting)
}

func (q *Queue) leave(key Key) {
	q.waiting = slices.DeleteFunc(q.waiting, func(t ticket) bool { return t.key == key })
}

func (q *Queue) announce(grants []Key, asker Key) {
	for _, key := range grants {
		if key != asker {
			q.granted(key)
		}
	}
}

// grant gives the free slots away: each to the namespace with the fewest
// running, then to the one served longest ago, then by order of arrival.
func (q *Queue) grant() []Key {
	var grants []Key
	for len(q.running) < q.limit {
		at := q.next()
		if at < 0 {
			break
		}
		t := q.waiting[at]
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.running[t.key] = t
		q.counter++
		q.served[t.key.Namespace] = q.counter
		grants = append(grants, t.key)
	}
	return grants
}

func (q *Queue) next() int {
	perNamespace, perGroup := map[string]int{}, map[string]int{}
	for key, t := range q.running {
		perNamespace[key.Namespace]++
		perGroup[t.group.Name]++
	}
	best := -1
	for i, t := range q.waiting {
		if t.group.Limit > 0 && perGroup[t.group.Name] >= t.group.Limit {
			continue
		}
		if best < 0 || q.before(t, q.waiting[best], perNamespace) {
			best = i
		}
	}
	return best
}

func (q *Queue) before(a, b ticket, perNamespace map[string]int) bool {
	an, bn := a.key.Namespace, b.key.Namespace
	if perNamespace[an] != perNamespace[bn] {
		return perNamespace[an] < perNamespace[bn]
	}
	return q.served[an] < q.served[bn]
}

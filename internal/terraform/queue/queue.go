// Package queue limits the number of concurrent runs, in total and per group. It
// is fair between namespaces: hundreds of waiting runs in one namespace do not
// delay the first run of another.
package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Key identifies a workspace that has or wants a slot.
type Key struct{ Namespace, Name string }

// Group is a set of runs with its own limit. A limit of 0 means no limit.
type Group struct {
	Name  string
	Limit int
	// Namespace is the namespace that the run counts for, if it is not that of the key. The
	// group is then lent to it.
	Namespace string
	// Background runs wait behind the other runs of their namespace, for up to maxBackground.
	Background bool
}

// Queue assigns slots. It is in memory: after a restart of the manager, Hold
// restores the slots of the runs that are still running.
type Queue struct {
	limits Limits
	now    func() time.Time
	// granted is called without locks held for each waiting key that got a slot.
	// It must not block.
	granted func(Key)

	mu      sync.Mutex
	running map[Key]ticket
	waiting []ticket
	// served is the value of counter when a namespace last got a slot.
	served  map[string]uint64
	counter uint64
}

type ticket struct {
	key   Key
	group Group
	since time.Time
}

// share returns how many runs of the group its namespace may have at the same time. One
// namespace to which a group is lent gets half of it, and at least one run.
func (t ticket) share() int {
	if t.group.Namespace == "" {
		return t.group.Limit
	}
	return (t.group.Limit + 1) / 2
}

// namespace returns the namespace that a run counts for.
func (t ticket) namespace() string { return cmp.Or(t.group.Namespace, t.key.Namespace) }

// Limits are the limits of a queue.
type Limits struct {
	// Total is the number of slots.
	Total int
	// PerNamespace is the number of slots that one namespace can have. 0 means no limit.
	// Long runs of one namespace cannot hold all slots if it is lower than Total.
	PerNamespace int
}

// New returns a queue. It calls granted for each waiting key that gets a slot; granted
// must not block.
func New(limits Limits, now func() time.Time, granted func(Key)) *Queue {
	return &Queue{limits: limits, now: now, granted: granted, running: map[Key]ticket{}, served: map[string]uint64{}}
}

// Acquire requests a slot. It returns true if the key has a slot, with the time
// since when it waited for it. Otherwise the key waits, and the queue calls
// granted when the key gets a slot. Acquire is idempotent.
func (q *Queue) Acquire(key Key, group Group) (acquired bool, since time.Time) {
	q.mu.Lock()
	if t, running := q.running[key]; running {
		q.mu.Unlock()
		return true, t.since
	}
	at := slices.IndexFunc(q.waiting, func(t ticket) bool { return t.key == key })
	if at < 0 {
		q.waiting = append(q.waiting, ticket{key: key, group: group, since: q.now()})
	} else {
		q.waiting[at].group = group
	}
	grants := q.grant()
	t, running := q.running[key]
	if !running {
		t = q.waiting[slices.IndexFunc(q.waiting, func(t ticket) bool { return t.key == key })]
	}
	q.mu.Unlock()
	q.announce(grants, key)
	return running, t.since
}

// Hold assigns a slot to a run that is already running, regardless of limits.
func (q *Queue) Hold(key Key, group Group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(key)
	if _, running := q.running[key]; running {
		return
	}
	q.running[key] = ticket{key: key, group: group}
}

// Release frees the slot of a key, or removes the key from the queue.
func (q *Queue) Release(key Key) {
	q.mu.Lock()
	delete(q.running, key)
	q.leave(key)
	grants := q.grant()
	q.mu.Unlock()
	q.announce(grants, key)
}

// Len returns the number of running and of waiting keys.
func (q *Queue) Len() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.running), len(q.waiting)
}

// LongestWait returns how long a key has been waiting, or 0. The time in which a background run
// waits behind others does not count.
func (q *Queue) LongestWait() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var longest time.Duration
	for _, t := range q.waiting {
		wait := q.now().Sub(t.since)
		if t.group.Background {
			wait -= maxBackground
		}
		longest = max(longest, wait)
	}
	return longest
}

func (q *Queue) leave(key Key) {
	q.waiting = slices.DeleteFunc(q.waiting, func(t ticket) bool { return t.key == key })
}

// announce calls granted for each key but the caller's own.
func (q *Queue) announce(grants []Key, caller Key) {
	for _, key := range grants {
		if key != caller {
			q.granted(key)
		}
	}
}

// grant assigns the free slots. Each slot goes to the namespace with the fewest
// running keys, then to the one that was served longest ago, then to the key that
// arrived first, background runs last.
func (q *Queue) grant() []Key {
	var grants []Key
	for len(q.running) < q.limits.Total {
		at := q.next()
		if at < 0 {
			break
		}
		t := q.waiting[at]
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.running[t.key] = t
		q.counter++
		q.served[t.namespace()] = q.counter
		grants = append(grants, t.key)
	}
	return grants
}

// next returns the index of the waiting key that gets the next slot, or -1.
func (q *Queue) next() int {
	type borrower struct{ group, namespace string }
	perNamespace, perGroup, perBorrower := map[string]int{}, map[string]int{}, map[borrower]int{}
	for _, t := range q.running {
		perNamespace[t.namespace()]++
		perGroup[t.group.Name]++
		perBorrower[borrower{t.group.Name, t.namespace()}]++
	}
	best := -1
	for i, t := range q.waiting {
		if t.group.Limit > 0 && (perGroup[t.group.Name] >= t.group.Limit || perBorrower[borrower{t.group.Name, t.namespace()}] >= t.share()) ||
			q.limits.PerNamespace > 0 && perNamespace[t.namespace()] >= q.limits.PerNamespace {
			continue
		}
		if best < 0 || q.before(t, q.waiting[best], perNamespace) {
			best = i
		}
	}
	return best
}

// before reports whether a gets a slot before b, which arrived earlier.
func (q *Queue) before(a, b ticket, perNamespace map[string]int) bool {
	an, bn := a.namespace(), b.namespace()
	if order := cmp.Or(cmp.Compare(perNamespace[an], perNamespace[bn]), cmp.Compare(q.served[an], q.served[bn])); order != 0 {
		return order < 0
	}
	return !q.yields(a) && q.yields(b)
}

// maxBackground is how long a background run waits behind those that arrive later.
const maxBackground = 30 * time.Minute

// yields reports whether a run waits behind those that arrive later.
func (q *Queue) yields(t ticket) bool {
	return t.group.Background && q.now().Sub(t.since) < maxBackground
}

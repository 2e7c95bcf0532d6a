package connection

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// part is the part of the manager's memory that the objects of one cluster may have,
	// and minBudget and maxBudget limit it. The first is enough for the nodes of a large
	// cluster, and the second applies without a memory limit. The clusters of one namespace
	// may have one and a half times as much together, and all clusters twice as much.
	part                 = 4
	minBudget, maxBudget = 16 << 20, 256 << 20
	// reserved is what the clusters of a namespace may have even if those of others need all.
	reserved = 1 << 20
	// limitRetry is when a kind that needed too much memory is listed again.
	limitRetry = 5 * time.Minute
)

// memory is what the objects of all clusters need. The users of a cluster decide how many
// there are, and the manager is shared with others.
type memory struct {
	// cluster, namespace and all are what the objects of a cluster, of the clusters of a
	// namespace, and of all clusters may need.
	cluster, namespace, all int64

	mu   sync.Mutex
	used int64
	// namespaces is what the objects of the clusters of each namespace need.
	namespaces map[string]*share
}

// share is what the objects of the clusters of a namespace need.
type share struct {
	used  int64
	kinds map[*usage]int64
}

func newMemory() *memory {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = part * maxBudget
	}
	cluster := max(limit/part, minBudget)
	return &memory{cluster: cluster, namespace: cluster * 3 / 2, all: cluster * 2, namespaces: map[string]*share{}}
}

// add adds to what a kind of a cluster needs. It returns for which clusters that is too much, and
// the limit in bytes, or an empty string. If all clusters need too much, that is so for the
// namespace that loser returns. If it is another one, it loses a kind.
func (m *memory) add(u *usage, by int64) (whose string, limit int64) {
	m.mu.Lock()
	own := m.charge(u, by)
	whose, limit = m.exceededBy(own)
	var largest *share
	if whose == "" && by > 0 && m.used > m.all {
		if largest = m.loser(own); largest == own && own.used > reserved {
			whose, limit = "all workload clusters", m.all
		}
	}
	var evicted *usage
	if largest != nil && largest != own && largest.used > reserved {
		evicted = largest.largest()
	}
	m.mu.Unlock()
	if evicted != nil && evicted.evict != nil {
		evicted.evict()
	}
	return whose, limit
}

// charge adds to what a kind of a cluster needs, and returns what its namespace needs.
func (m *memory) charge(u *usage, by int64) *share {
	m.used += by
	own := m.namespaces[u.budget.namespace]
	if own == nil {
		own = &share{kinds: map[*usage]int64{}}
		m.namespaces[u.budget.namespace] = own
	}
	own.used += by
	if own.kinds[u] += by; own.kinds[u] == 0 {
		delete(own.kinds, u)
	}
	if len(own.kinds) == 0 {
		delete(m.namespaces, u.budget.namespace)
	}
	return own
}

// exceededBy returns the limit that the clusters of a namespace exceed by themselves.
func (m *memory) exceededBy(own *share) (whose string, limit int64) {
	if own.used > m.namespace {
		return "the workload clusters of the namespace", m.namespace
	}
	return "", 0
}

// loser returns the namespace that loses what it needs if all clusters need too much: the one that
// needs most, or own if it has its share and the other one does not need twice as much. Otherwise
// who has several namespaces could take the memory of one that needs a little more than each.
func (m *memory) loser(own *share) *share {
	largest := m.largest(own)
	if own.used > max(reserved, m.all/int64(len(m.namespaces))) && largest.used < 2*own.used {
		return own
	}
	return largest
}

// largest returns the namespace that needs most, own if no other needs more.
func (m *memory) largest(own *share) *share {
	for _, other := range m.namespaces {
		if other.used > own.used {
			own = other
		}
	}
	return own
}

// largest returns the kind that needs most.
func (s *share) largest() *usage {
	var found *usage
	for u, used := range s.kinds {
		if found == nil || used > s.kinds[found] {
			found = u
		}
	}
	return found
}

// exceeded returns which limit the clusters of a namespace exceed, alone or with all others.
func (m *memory) exceeded(namespace string) (whose string, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own := m.namespaces[namespace]; own != nil {
		if whose, limit = m.exceededBy(own); whose != "" {
			return whose, limit
		}
	}
	if m.used > m.all {
		return "all workload clusters", m.all
	}
	return "", 0
}

// budget is the memory that the objects of a cluster may have.
type budget struct {
	memory    *memory
	namespace string
	used      atomic.Int64
}

// add adds to what the objects of a kind need. It reports whether there is enough memory.
func (b *budget) add(u *usage, by int64) bool {
	whose, _ := b.memory.add(u, by)
	return b.used.Add(by) <= b.memory.cluster && whose == ""
}

// exceeded returns the error for a kind with which the objects need too much memory.
func (b *budget) exceeded(k kind) error {
	whose, limit := b.memory.exceeded(b.namespace)
	if b.used.Load() > b.memory.cluster || whose == "" {
		whose, limit = "the cluster", b.memory.cluster
	}
	return fmt.Errorf("the manager does not watch %s of the workload cluster, with which the objects of %s would need more than %d MiB of memory: delete some of them, or raise the memory limit of the manager", k.Kind, whose, limit>>20)
}

// usage is what the objects of one kind need. They are in memory twice while they are
// listed again, which is not counted.
type usage struct {
	budget *budget
	// evict ends the watch of the kind, for others that need the memory. It does not block.
	evict func()

	mu sync.Mutex
	// kept are the bytes in the store, and pending those of a list that is being read.
	kept, pending int64
	charged       int64
}

// release returns the memory when the objects are not needed any more.
func (u *usage) release() { u.set(func() { u.kept, u.pending = 0, 0 }) }

// list begins a list.
func (u *usage) list() { u.set(func() { u.pending = 0 }) }

// listed adds an object to the list. It reports whether there is enough memory.
func (u *usage) listed(obj any) bool {
	size := weigh(obj)
	return u.set(func() { u.pending += size })
}

// replaced records that the store has only these bytes.
func (u *usage) replaced(size int64) bool { return u.set(func() { u.kept, u.pending = size, 0 }) }

// changed adds to the bytes in the store.
func (u *usage) changed(by int64) bool { return u.set(func() { u.kept += by }) }

func (u *usage) set(change func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
	before := u.charged
	u.charged = max(u.kept, u.pending)
	return u.budget.add(u, u.charged-before)
}

// weigh estimates the bytes that an object needs in memory.
func weigh(obj any) int64 {
	switch obj := obj.(type) {
	case nil:
		return 0
	case *unstructured.Unstructured:
		return 64 + weighJSON(obj.Object)
	case interface{ Size() int }:
		// The size of its encoding, and that of the empty object.
		return 1<<10 + 2*int64(obj.Size())
	default:
		return 1 << 10
	}
}

// weighJSON estimates the bytes of decoded JSON.
func weighJSON(value any) int64 {
	const word, text, group = 8, 24, 272 // A group of a map has eight entries.
	total := int64(word)
	switch v := value.(type) {
	case string:
		total = text + int64(len(v))
	case []any:
		total = text + int64(len(v))*2*word
		for _, item := range v {
			total += weighJSON(item)
		}
	case map[string]any:
		total = 6*word + group*int64(len(v)/8+1)
		for key, item := range v {
			total += word + int64(len(key)) + weighJSON(item)
		}
	}
	return total
}

package connection

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// The parts of the manager's memory that the objects of one cluster, of the clusters of one
	// namespace, and of all clusters may have. The first is enough for the nodes of a large
	// cluster.
	clusterPart, namespacePart, totalPart = 8, 4, 2
	// reserved is what the clusters of a namespace may have even if those of others need all.
	reserved = 4 << 20
	// defaultMemory is assumed without a memory limit.
	defaultMemory = 1 << 30
	// limitRetry is when a kind that needed too much memory is listed again.
	limitRetry = 5 * time.Minute
)

// memory is what the objects of all clusters need. The users of a cluster decide how many
// there are, and the manager is shared with others.
type memory struct {
	// limit is the memory of the manager.
	limit int64

	mu    sync.Mutex
	total int64
	// namespaces is what the objects of the clusters of each namespace need.
	namespaces map[string]int64
}

func newMemory() *memory {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = defaultMemory
	}
	return &memory{limit: limit, namespaces: map[string]int64{}}
}

// budget is the memory that the objects of a cluster may have.
type budget struct {
	memory    *memory
	namespace string
	used      int64
}

// add adds to what the objects need. It reports whether there is enough memory. What needs no
// more is not refused because of others.
func (b *budget) add(by int64) bool {
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.used += by
	b.memory.total += by
	if b.memory.namespaces[b.namespace] += by; b.memory.namespaces[b.namespace] == 0 {
		delete(b.memory.namespaces, b.namespace)
	}
	whose, _ := b.exceeded()
	return whose == "" || whose == allClusters && by <= 0
}

const allClusters = "all workload clusters"

// exceeded returns whose objects need too much memory, and the limit in bytes, or an empty string.
func (b *budget) exceeded() (whose string, limit int64) {
	m := b.memory
	switch {
	case b.used > m.limit/clusterPart:
		return "the cluster", m.limit / clusterPart
	case m.namespaces[b.namespace] > m.limit/namespacePart:
		return "the workload clusters of the namespace", m.limit / namespacePart
	case m.total > m.limit/totalPart && m.namespaces[b.namespace] > reserved:
		return allClusters, m.limit / totalPart
	}
	return "", 0
}

// error returns the error for a kind with which the objects need too much memory.
func (b *budget) error(k kind) error {
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	whose, limit := b.exceeded()
	if whose == "" {
		// Others need less by now.
		whose, limit = allClusters, b.memory.limit/totalPart
	}
	return fmt.Errorf("the manager does not watch %s of the workload cluster, with which the objects of %s would need more than %d MiB of memory: delete some of them, or raise the memory limit of the manager", k.Kind, whose, limit>>20)
}

// usage is what the objects of one kind need. They are in memory twice while they are
// listed again, which is not counted.
type usage struct {
	budget *budget

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
	return u.budget.add(u.charged - before)
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

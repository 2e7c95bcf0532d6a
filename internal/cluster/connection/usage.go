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
	// share is the part of the manager's memory that the objects of one cluster may have.
	share = 4
	// minBudget and maxBudget limit it. The first is enough for the nodes of a large
	// cluster, and the second applies without a memory limit.
	minBudget, maxBudget = 16 << 20, 256 << 20
	// limitRetry is when a kind that needed too much memory is listed again.
	limitRetry = 5 * time.Minute
)

// budget is the memory that the objects of a cluster may have. The users of that cluster
// decide how many there are, and the manager is shared with others.
type budget struct {
	limit int64
	used  atomic.Int64
}

func newBudget() *budget {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = share * maxBudget
	}
	return &budget{limit: max(limit/share, minBudget)}
}

// exceeded returns the error for a kind with which the objects need too much memory.
func (b *budget) exceeded(k kind) error {
	return fmt.Errorf("the manager does not watch %s of the workload cluster, with which its objects would need more than %d MiB of memory: delete some of them, or raise the memory limit of the manager", k.Kind, b.limit>>20)
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
	return u.budget.used.Add(u.charged-before) <= u.budget.limit
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

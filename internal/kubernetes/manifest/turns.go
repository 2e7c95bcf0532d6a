package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	// maxWaiting limits how many admissions of a namespace wait, and maxAllWaiting those of all
	// namespaces. Each keeps a request of up to 3 MiB.
	maxWaiting    = 2
	maxAllWaiting = 16
)

// ErrBusy reports that too many large texts wait to be decoded.
var ErrBusy = errors.New("the manager decodes other large YAML: try again")

// Turn identifies who decodes texts.
type Turn struct {
	// Admission reports whether an API server waits for the result.
	Admission bool
	// Namespace is that of the texts.
	Namespace string
}

// Wait waits until the texts may be decoded, and returns a function that the caller calls when they
// are. Large texts are decoded one at a time: a decoder needs several times the memory of the
// decoded objects. Admissions and others take turns, and so do the namespaces of each, so that no
// namespace waits for all texts of another one. Wait returns an error if ctx ends, or ErrBusy if
// too many admissions wait. It returns at once if the texts are small together.
func (t Turn) Wait(ctx context.Context, texts ...[]byte) (end func(), err error) {
	if AreSmall(texts...) {
		return func() {}, nil
	}
	return t.Begin(ctx)
}

// Begin waits as Wait does for large texts.
func (t Turn) Begin(ctx context.Context) (end func(), err error) { return decodings.wait(ctx, t) }

// Unpack waits until an archive may be unpacked, as Begin does for texts. Archives have a queue of
// their own, because they need more time. Who waits for both waits for Unpack first.
func (t Turn) Unpack(ctx context.Context) (end func(), err error) { return unpackings.wait(ctx, t) }

// decodings are the large texts that are decoded, or wait for that, and unpackings the archives.
var decodings, unpackings queue

// queue lets one after the other have a turn.
type queue struct {
	mu   sync.Mutex
	busy bool
	// admission reports whether the latest turn was that of an admission.
	admission          bool
	admissions, others lane
}

func (q *queue) wait(ctx context.Context, t Turn) (end func(), err error) {
	q.mu.Lock()
	if !q.busy {
		q.busy, q.admission = true, t.Admission
		q.mu.Unlock()
		return q.end, nil
	}
	own := q.lane(t.Admission)
	if t.Admission && (len(own.waiting[t.Namespace]) >= maxWaiting || own.count() >= maxAllWaiting) {
		q.mu.Unlock()
		return nil, ErrBusy
	}
	ready := own.add(t.Namespace)
	q.mu.Unlock()

	select {
	case <-ready:
		return q.end, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	left := own.remove(t.Namespace, ready)
	q.mu.Unlock()
	if !left {
		// The turn came meanwhile.
		q.end()
	}
	return nil, fmt.Errorf("waiting for other large YAML or charts: %w", ctx.Err())
}

// end gives the turn to the next one.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, admission := range []bool{!q.admission, q.admission} {
		if next := q.lane(admission).next(); next != nil {
			q.admission = admission
			close(next)
			return
		}
	}
	q.busy = false
}

func (q *queue) lane(admission bool) *lane {
	if admission {
		return &q.admissions
	}
	return &q.others
}

// lane has those who wait by their namespace.
type lane struct {
	// order are the namespaces that wait, the next one first.
	order   []string
	waiting map[string][]chan struct{}
}

func (l *lane) count() int {
	total := 0
	for _, waiting := range l.waiting {
		total += len(waiting)
	}
	return total
}

// add returns a channel that is closed when it is the turn of the caller.
func (l *lane) add(namespace string) chan struct{} {
	if l.waiting == nil {
		l.waiting = map[string][]chan struct{}{}
	}
	if len(l.waiting[namespace]) == 0 {
		l.order = append(l.order, namespace)
	}
	ready := make(chan struct{})
	l.waiting[namespace] = append(l.waiting[namespace], ready)
	return ready
}

// next removes and returns the channel of the next one, or nil. The namespace is the last one
// afterwards.
func (l *lane) next() chan struct{} {
	if len(l.order) == 0 {
		return nil
	}
	namespace := l.order[0]
	ready := l.waiting[namespace][0]
	l.remove(namespace, ready)
	if i := slices.Index(l.order, namespace); i >= 0 {
		l.order = append(slices.Delete(l.order, i, i+1), namespace)
	}
	return ready
}

// remove reports whether a channel was waiting.
func (l *lane) remove(namespace string, ready chan struct{}) bool {
	i := slices.Index(l.waiting[namespace], ready)
	if i < 0 {
		return false
	}
	l.waiting[namespace] = slices.Delete(l.waiting[namespace], i, i+1)
	if len(l.waiting[namespace]) == 0 {
		delete(l.waiting, namespace)
		l.order = slices.DeleteFunc(l.order, func(other string) bool { return other == namespace })
	}
	return true
}

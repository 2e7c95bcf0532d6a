package connection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// resyncPeriod is when the handlers get all objects again, as those of controller-runtime.
const resyncPeriod = 10 * time.Hour

// listSuffix is that of the kinds of lists.
const listSuffix = "List"

func kindOfList(kind string) string { return strings.TrimSuffix(kind, listSuffix) }

// informer holds the objects of a kind. It calls its handlers when they change, one
// handler after the other, and reads the next change when they have returned: they must
// not block. client-go's informer has two goroutines and a queue of 16 KiB for each
// handler.
type informer struct {
	kind          kind
	clusterScoped bool
	store         toolscache.Store
	transform     toolscache.TransformFunc
	usage         usage
	// cancel ends the current watch because the objects need too much memory.
	cancel atomic.Pointer[context.CancelCauseFunc]
	// listed is closed when the first list is in the store and the handlers have got it, or
	// when there will be none.
	listed chan struct{}
	// stopped is closed when the watch has ended for good.
	stopped chan struct{}

	// mu is held while the store changes and the handlers are called, so that each handler
	// gets each change once.
	mu       sync.Mutex
	handlers []*registration
	// failed is why the store does not have the objects, or nil. Reads must not wait for
	// handlers.
	failed atomic.Pointer[error]
}

var (
	_ cache.Informer               = &informer{}
	_ toolscache.TransformingStore = &informer{}
)

func newInformer(k kind, transform toolscache.TransformFunc, clusterScoped bool, memory *budget) *informer {
	return &informer{
		kind: k, clusterScoped: clusterScoped, transform: transform, usage: usage{budget: memory},
		store:  toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc),
		listed: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// start watches until the context ends. A watch whose objects need too much memory ends
// earlier, and starts again later: there may be fewer of them.
func (i *informer) start(ctx context.Context, item runtime.Object, source toolscache.ListerWatcher) {
	go func() {
		defer i.end()
		for {
			err := i.run(ctx, item, source)
			if ctx.Err() != nil {
				return
			}
			i.discard(err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(limitRetry):
			}
		}
	}()
}

// run watches until the context ends, or until the objects need too much memory.
func (i *informer) run(ctx context.Context, item runtime.Object, source toolscache.ListerWatcher) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	i.cancel.Store(&cancel)
	toolscache.NewReflectorWithOptions(source, item, i, toolscache.ReflectorOptions{Name: "workload", ResyncPeriod: resyncPeriod}).RunWithContext(ctx)
	return context.Cause(ctx)
}

// exceed ends the watch because the objects need too much memory, and returns that.
func (i *informer) exceed() error {
	err := i.usage.budget.error(i.kind)
	if cancel := i.cancel.Load(); cancel != nil {
		(*cancel)(err)
	}
	return err
}

// discard removes all objects. Reads fail with an error until the next list.
func (i *informer) discard(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failed.Store(&err)
	objects := i.store.List()
	if err := i.store.Replace(nil, ""); err != nil {
		return // A list of nothing has no invalid object.
	}
	i.usage.replaced(0)
	for _, obj := range objects {
		for _, r := range i.handlers {
			r.handler.OnDelete(obj)
		}
	}
	if !i.HasSynced() {
		close(i.listed)
	}
}

// end ends the waits for a first list that does not come any more. Those of controllers
// do not end with the connection.
func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.usage.release()
	close(i.stopped)
	if !i.HasSynced() {
		i.failed.Store(&errDisconnected)
		close(i.listed)
	}
}

// failure returns why the objects cannot be read, or nil.
func (i *informer) failure() error {
	if err := i.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// item returns an object in the store, or a copy unless the caller wants none.
func (i *informer) item(found any, noCopy *bool) (runtime.Object, error) {
	obj, ok := found.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the cache has %T, which is not an object", found)
	}
	if noCopy != nil && *noCopy {
		return obj, nil
	}
	copied := obj.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(i.kind.GroupVersionKind)
	return copied, nil
}

// Transformer implements toolscache.TransformingStore. It is called for the objects of a
// list that is streamed.
func (i *informer) Transformer() toolscache.TransformFunc { return i.counted }

// counted reduces an object of a list. An error would end neither the list nor the watch,
// and would log the object.
func (i *informer) counted(obj any) (any, error) {
	obj, err := i.reduced(obj)
	if err == nil && !i.usage.listed(obj) {
		_ = i.exceed()
	}
	return obj, err
}

// Add implements toolscache.ReflectorStore.
func (i *informer) Add(obj any) error { return i.change(obj) }

// Update implements toolscache.ReflectorStore.
func (i *informer) Update(obj any) error { return i.change(obj) }

// change puts an object into the store.
func (i *informer) change(obj any) error {
	obj, err := i.reduced(obj)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	old, _, err := i.store.Get(obj)
	if err != nil {
		return fmt.Errorf("changing the cache: %w", err)
	}
	if !i.usage.changed(weigh(obj) - weigh(old)) {
		_ = i.exceed()
	}
	return i.put(obj, false)
}

// Delete implements toolscache.ReflectorStore.
func (i *informer) Delete(obj any) error {
	obj, err := i.reduced(obj)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	old, _, err := i.store.Get(obj)
	if err := errors.Join(err, i.store.Delete(obj)); err != nil {
		return fmt.Errorf("changing the cache: %w", err)
	}
	i.usage.changed(-weigh(old))
	for _, r := range i.handlers {
		r.handler.OnDelete(obj)
	}
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (i *informer) Replace(list []any, _ string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	initial := !i.HasSynced()
	kept, size := make(map[string]bool, len(list)), int64(0)
	for _, obj := range list {
		obj, err := i.reduced(obj)
		if err != nil {
			return err
		}
		key, err := toolscache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return fmt.Errorf("changing the cache: %w", err)
		}
		kept[key] = true
		size += weigh(obj)
		if err := i.put(obj, initial); err != nil {
			return err
		}
	}
	for _, key := range i.store.ListKeys() {
		if kept[key] {
			continue
		}
		last, _, err := i.store.GetByKey(key)
		gone := toolscache.DeletedFinalStateUnknown{Key: key, Obj: last}
		if err := errors.Join(err, i.store.Delete(gone)); err != nil {
			return fmt.Errorf("changing the cache: %w", err)
		}
		for _, r := range i.handlers {
			r.handler.OnDelete(gone)
		}
	}
	if !i.usage.replaced(size) {
		return i.exceed()
	}
	i.failed.Store(nil)
	if initial {
		close(i.listed)
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (i *informer) Resync() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range i.store.List() {
		for _, r := range i.handlers {
			r.handler.OnUpdate(obj, obj)
		}
	}
	return nil
}

// put puts an object into the store, and calls the handlers if it has changed.
func (i *informer) put(obj any, initial bool) error {
	old, exists, err := i.store.Get(obj)
	if err == nil {
		err = i.store.Update(obj)
	}
	if err != nil {
		return fmt.Errorf("changing the cache: %w", err)
	}
	if exists && version(old) == version(obj) {
		return nil
	}
	for _, r := range i.handlers {
		if exists {
			r.handler.OnUpdate(old, obj)
		} else {
			r.handler.OnAdd(obj, initial)
		}
	}
	return nil
}

// version returns the resource version of an object.
func version(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

func (i *informer) reduced(obj any) (any, error) {
	if i.transform == nil {
		return obj, nil
	}
	return i.transform(obj)
}

// registration is a handler of an informer.
type registration struct {
	*informer

	handler toolscache.ResourceEventHandler
}

// AddEventHandler implements cache.Informer. It calls the handler for all objects before
// it returns.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	added := &registration{informer: i, handler: handler}
	i.handlers = append(i.handlers, added)
	for _, obj := range i.store.List() {
		handler.OnAdd(obj, true)
	}
	return added, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer. The period is the same for
// all handlers.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return r == handle })
	return nil
}

// AddIndexers implements cache.Informer.
func (*informer) AddIndexers(toolscache.Indexers) error { return errFields }

// HasSynced implements cache.Informer.
func (i *informer) HasSynced() bool {
	select {
	case <-i.listed:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements cache.Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i }

// Name implements toolscache.DoneChecker.
func (i *informer) Name() string { return "cache of " + i.kind.String() }

// Done implements toolscache.DoneChecker.
func (i *informer) Done() <-chan struct{} { return i.listed }

// IsStopped implements cache.Informer.
func (i *informer) IsStopped() bool {
	select {
	case <-i.stopped:
		return true
	default:
		return false
	}
}

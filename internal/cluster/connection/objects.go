package connection

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/appthrust/capt/internal/cluster/workload"
)

// errDisconnected is returned for a kind that was not listed before the connection ended.
var errDisconnected = errors.New("the connection to the workload cluster has ended")

// errFields is returned for lists by fields, and errMetadata for objects with only their
// metadata. No controller reads them from a workload cluster.
var (
	errFields   = errors.New("the cache of a workload cluster has no index of fields")
	errMetadata = errors.New("the cache of a workload cluster holds no objects with only their metadata")
)

// objects is the cache of the objects of a workload cluster. It watches a kind when the
// kind is first read. It does what controller-runtime's cache does with less
// memory: it has no goroutines of its own but one for each kind, and no queues.
type objects struct {
	client    client.WithWatch
	transform toolscache.TransformFunc
	selectors map[schema.GroupKind]labels.Selector
	// ctx is that of the watches.
	ctx context.Context //nolint:containedctx // Watches outlive the reconcile that starts them.

	// memory is what all objects may need.
	memory *budget

	mu        sync.Mutex
	informers map[kind]*informer
}

// kind is what an informer holds: typed objects, or unstructured ones.
type kind struct {
	schema.GroupVersionKind

	unstructured bool
}

var _ cache.Cache = &objects{}

// Get implements client.Reader. It waits for the first list of the kind.
func (o *objects) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	var options client.GetOptions
	options.ApplyOptions(opts)
	i, err := o.synced(ctx, out)
	if err != nil {
		return err
	}
	if i.clusterScoped {
		key.Namespace = ""
	}
	found, exists, err := i.store.GetByKey(toolscache.NewObjectName(key.Namespace, key.Name).String())
	if err != nil {
		return fmt.Errorf("reading the cache: %w", err)
	}
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{Group: i.kind.Group, Resource: i.kind.Kind}, key.Name)
	}
	item, err := i.item(found, options.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	from, to := reflect.ValueOf(item), reflect.ValueOf(out)
	if from.Type() != to.Type() {
		return fmt.Errorf("the cache has %T, not %T", item, out)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// List implements client.Reader. It waits for the first list of the kind.
func (o *objects) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	if options.FieldSelector != nil {
		return errFields
	}
	if options.Continue != "" {
		return errors.New("the cache returns all objects at once")
	}
	i, err := o.synced(ctx, out)
	if err != nil {
		return err
	}
	var items []runtime.Object
	for _, found := range i.store.List() {
		obj, err := meta.Accessor(found)
		if err != nil {
			return fmt.Errorf("reading the cache: %w", err)
		}
		if options.Namespace != "" && obj.GetNamespace() != options.Namespace ||
			options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if options.Limit > 0 && int64(len(items)) == options.Limit {
			break
		}
		item, err := i.item(found, options.UnsafeDisableDeepCopy)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return meta.SetList(out, items)
}

// GetInformer implements cache.Informers. It waits for the first list of the kind, or until
// the connection ends: a controller asks again and again after an error.
func (o *objects) GetInformer(ctx context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return o.settled(ctx, obj)
}

// GetInformerForKind implements cache.Informers.
func (o *objects) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := o.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	return o.settled(ctx, obj)
}

// RemoveInformer implements cache.Informers. The watches end with the connection.
func (*objects) RemoveInformer(context.Context, client.Object) error { return nil }

// Start implements cache.Informers. The watches start when they are needed.
func (*objects) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync implements cache.Informers.
func (o *objects) WaitForCacheSync(ctx context.Context) bool {
	o.mu.Lock()
	var waits []<-chan struct{}
	for _, i := range o.informers {
		waits = append(waits, i.listed)
	}
	o.mu.Unlock()
	for _, listed := range waits {
		select {
		case <-listed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// IndexField implements client.FieldIndexer.
func (*objects) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errFields
}

// synced returns the informer of an object or of a list, after its first list.
func (o *objects) synced(ctx context.Context, obj runtime.Object) (*informer, error) {
	i, err := o.settled(ctx, obj)
	if err != nil {
		return nil, err
	}
	return i, i.failure()
}

// settled returns the informer of an object or of a list when it is known whether its
// objects can be read.
func (o *objects) settled(ctx context.Context, obj runtime.Object) (*informer, error) {
	i, err := o.informer(obj)
	if err != nil {
		return nil, err
	}
	select {
	case <-i.listed:
		return i, nil
	case <-ctx.Done():
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("the objects of kind %s were not listed in time", i.kind.Kind), 0)
	}
}

// informer returns the informer of an object or of a list. It does not block for longer
// than it takes to look up the kind.
func (o *objects) informer(obj runtime.Object) (*informer, error) {
	gvk, err := apiutil.GVKForObject(obj, o.client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	k := kind{GroupVersionKind: gvk}
	switch obj.(type) {
	case runtime.Unstructured:
		k.unstructured = true
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return nil, errMetadata
	}
	if _, isList := obj.(client.ObjectList); isList {
		k.Kind = kindOfList(k.Kind)
	}
	mapping, err := o.client.RESTMapper().RESTMapping(k.GroupKind(), k.Version)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.informers[k]; found != nil {
		return found, nil
	}
	created := newInformer(k, o.transform, mapping.Scope.Name() == meta.RESTScopeNameRoot, o.memory)
	item, err := o.item(k)
	if err != nil {
		return nil, err
	}
	o.informers[k] = created
	created.start(o.ctx, item, o.listWatch(created))
	return created, nil
}

// item returns an empty object of a kind.
func (o *objects) item(k kind) (runtime.Object, error) {
	if k.unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(k.GroupVersionKind)
		return obj, nil
	}
	obj, err := o.client.Scheme().New(k.GroupVersionKind)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", k.Kind, err)
	}
	return obj, nil
}

// list returns an empty list of a kind.
func (o *objects) list(k kind) (client.ObjectList, error) {
	gvk := k.GroupVersion().WithKind(k.Kind + listSuffix)
	if k.unstructured {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	}
	created, err := o.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", k.Kind, err)
	}
	list, ok := created.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list", created)
	}
	return list, nil
}

// listWatch lists and watches a kind.
func (o *objects) listWatch(i *informer) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := o.listAll(ctx, i)
			return list, withoutAnswer(err)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			list, err := o.list(i.kind)
			if err != nil {
				return nil, err
			}
			if raw.SendInitialEvents != nil && *raw.SendInitialEvents {
				i.usage.list()
			}
			w, err := o.client.Watch(ctx, list, &client.ListOptions{LabelSelector: o.selectors[i.kind.GroupKind()], Raw: &raw})
			return w, withoutAnswer(err)
		},
	}
}

// listAll lists a kind, for API servers that do not stream lists. It reads small pages,
// and reduces their objects before it reads the next: without pages the answer could need
// much more memory than the cache. Of large objects it reads fewer at once.
func (o *objects) listAll(ctx context.Context, i *informer) (runtime.Object, error) {
	i.usage.list()
	list, err := o.list(i.kind)
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	newList := func() client.ObjectList {
		page, _ := o.list(i.kind) // It succeeded before.
		return page
	}
	err = workload.EachPage(ctx, o.client, newList, func(page client.ObjectList) error {
		list.SetResourceVersion(page.GetResourceVersion())
		return meta.EachListItem(page, func(obj runtime.Object) error {
			reduced, err := i.reduced(obj)
			if err == nil && !i.usage.listed(reduced) {
				err = i.exceed()
			}
			if kept, ok := reduced.(runtime.Object); ok {
				items = append(items, kept)
			}
			return err
		})
	}, &client.ListOptions{LabelSelector: o.selectors[i.kind.GroupKind()]})
	if err != nil {
		return nil, err
	}
	return list, meta.SetList(list, items)
}

package connection

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/cluster/workload"
)

// objectsOf is the cache of a connection, for the watches of controllers. A controller waits
// for an informer with its own context, and asks again after an error. Neither may outlast the
// connection.
type objectsOf struct {
	cache.Cache

	connected context.Context //nolint:containedctx // It is that of the connection.
}

// GetInformer implements cache.Informers. It does not wait for the first list. After the end of
// the connection the informer has no objects.
func (o *objectsOf) GetInformer(ctx context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if o.connected.Err() != nil {
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, obj, 0, nil), nil
	}
	return o.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
}

// WaitForCacheSync implements cache.Informers.
func (o *objectsOf) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.connected, cancel)() //nolint:contextcheck // It is that of the connection.
	return o.Cache.WaitForCacheSync(ctx)
}

// newInformer returns client-go's informer of a kind. For API servers that do not stream lists
// it reads small pages, and reduces their objects before it reads the next: client-go lists all
// objects at once, and then reduces them.
func (c *Cache) newInformer(source toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	all := toolscache.ToListerWatcherWithContext(source)
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return c.listPages(ctx, all)
		},
		WatchFuncWithContext: all.WatchWithContext,
	}, obj, resync, indexers)
}

func (c *Cache) listPages(ctx context.Context, source toolscache.ListerWithContext) (runtime.Object, error) {
	var list metav1.ListInterface
	var items []runtime.Object
	err := workload.Pages(func(limit int64, next string) (metav1.ListInterface, error) {
		page, err := source.ListWithContext(ctx, metav1.ListOptions{Limit: limit, Continue: next})
		if err != nil {
			return nil, err
		}
		return meta.ListAccessor(page)
	}, func(page metav1.ListInterface) error {
		list = page
		return meta.EachListItemWithAlloc(page.(runtime.Object), func(obj runtime.Object) error { //nolint:forcetypeassert // It is what ListWithContext returned.
			if c.options.Transform != nil {
				if _, err := c.options.Transform(obj); err != nil {
					return err
				}
			}
			items = append(items, obj)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	complete, _ := list.(runtime.Object)
	return complete, meta.SetList(complete, items)
}

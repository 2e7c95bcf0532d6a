// Package cachedreader caches Secrets and ConfigMaps of users by their resource
// version. A thousand workspaces that share a credential read it a thousand times
// when the manager starts or the credential changes. The API server is read once.
package cachedreader

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxObjects is the number of objects that are cached.
	maxObjects = 256
	// maxBytes is the size limit of a cached object. With many short keys it needs about ten
	// times as much memory.
	maxBytes = 16 << 10
)

// Reader reads from the API server. It returns a Secret or ConfigMap from its own
// cache while the metadata cache has the same resource version. The watch event
// of a newer version triggers the controllers that depend on it. All other
// objects are read from the API server every time.
type Reader struct {
	live client.Reader
	// metadata is a cache of object metadata; it has the resource versions.
	metadata client.Reader
	// cached has the latest objects by their identity.
	cached *lru.Cache
}

var _ client.Reader = &Reader{}

type identity struct {
	kind string
	key  client.ObjectKey
}

// NewReader returns a reader with an empty cache. metadata is a cache of the
// metadata of Secrets and ConfigMaps. Objects that it does not contain are always
// read from the API server.
func NewReader(live, metadata client.Reader) *Reader {
	return &Reader{live: live, metadata: metadata, cached: lru.New(maxObjects)}
}

// List reads from the API server.
func (r *Reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.live.List(ctx, list, opts...)
}

// Get reads an object, from the API server unless its resource version is cached.
func (r *Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, cacheable := kindOf(obj)
	if !cacheable || len(opts) > 0 {
		return r.live.Get(ctx, key, obj, opts...)
	}
	id := identity{kind: gvk.Kind, key: key}
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(gvk)
	if err := r.metadata.Get(ctx, key, known); err != nil {
		// The API server decides whatever the error is. An object without a watch
		// must not be cached.
		return r.live.Get(ctx, key, obj)
	}
	if r.load(id, known.GetResourceVersion(), obj) {
		return nil
	}
	if err := r.live.Get(ctx, key, obj); err != nil {
		return err
	}
	r.store(id, obj)
	return nil
}

func kindOf(obj client.Object) (schema.GroupVersionKind, bool) {
	switch obj.(type) {
	case *corev1.Secret:
		return corev1.SchemeGroupVersion.WithKind("Secret"), true
	case *corev1.ConfigMap:
		return corev1.SchemeGroupVersion.WithKind("ConfigMap"), true
	}
	return schema.GroupVersionKind{}, false
}

// load copies the cached object into the given one. It reports whether an object
// of this resource version is cached.
func (r *Reader) load(id identity, version string, into client.Object) bool {
	found, _ := r.cached.Get(id)
	switch cached := found.(type) {
	case *corev1.Secret:
		if cached.ResourceVersion == version {
			cached.DeepCopyInto(into.(*corev1.Secret))
			return true
		}
	case *corev1.ConfigMap:
		if cached.ResourceVersion == version {
			cached.DeepCopyInto(into.(*corev1.ConfigMap))
			return true
		}
	}
	return false
}

// store caches an object in place of its earlier version. An object above the size limit is
// not cached.
func (r *Reader) store(id identity, obj client.Object) {
	if sized, ok := obj.(interface{ Size() int }); !ok || sized.Size() > maxBytes {
		r.cached.Remove(id)
		return
	}
	r.cached.Add(id, obj.DeepCopyObject())
}

// Package cachedreader caches Secrets and ConfigMaps of users by their resource
// version. A thousand workspaces that share a credential read it a thousand times
// when the manager starts or the credential changes. The API server is read once.
package cachedreader

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxObjects is the number of objects that are cached.
	maxObjects = 256
	// maxBytes is the size limit of a cached object.
	maxBytes = 64 << 10
)

// Reader reads from the API server. It returns a Secret or ConfigMap from its own
// cache while the metadata cache has the same resource version. The watch event
// of a newer version triggers the controllers that depend on it. All other
// objects are read from the API server every time.
type Reader struct {
	live client.Reader
	// metadata is a cache of object metadata; it has the resource versions.
	metadata client.Reader

	mu     sync.Mutex
	cached map[identity]client.Object
	// order lists the cached objects, the oldest first.
	order []identity
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
	return &Reader{live: live, metadata: metadata, cached: map[identity]client.Object{}}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	cached, found := r.cached[id]
	if !found || cached.GetResourceVersion() != version {
		return false
	}
	switch cached := cached.(type) {
	case *corev1.Secret:
		cached.DeepCopyInto(into.(*corev1.Secret))
	case *corev1.ConfigMap:
		cached.DeepCopyInto(into.(*corev1.ConfigMap))
	}
	return true
}

// store caches an object in place of its earlier version. It removes the oldest
// object if there are too many. An object above the size limit is not cached.
func (r *Reader) store(id identity, obj client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if size(obj) > maxBytes {
		delete(r.cached, id)
		r.order = slices.DeleteFunc(r.order, func(other identity) bool { return other == id })
		return
	}
	if _, found := r.cached[id]; !found {
		r.order = append(r.order, id)
	}
	r.cached[id] = obj.DeepCopyObject().(client.Object)
	for len(r.order) > maxObjects {
		delete(r.cached, r.order[0])
		r.order = r.order[1:]
	}
}

// entrySize is what an entry of a map needs beside its key and value.
const entrySize = 64

// size estimates how many bytes an object needs. Users decide about the number of its keys, and
// about its metadata.
func size(obj client.Object) int {
	n := texts(obj.GetLabels()) + texts(obj.GetAnnotations())
	for _, entry := range obj.GetManagedFields() {
		n += entrySize
		if entry.FieldsV1 != nil {
			n += len(entry.FieldsV1.GetRawBytes())
		}
	}
	switch obj := obj.(type) {
	case *corev1.Secret:
		n += texts(obj.Data)
	case *corev1.ConfigMap:
		n += texts(obj.Data) + texts(obj.BinaryData)
	}
	return n
}

func texts[T string | []byte](entries map[string]T) int {
	n := 0
	for key, value := range entries {
		n += entrySize + len(key) + len(value)
	}
	return n
}

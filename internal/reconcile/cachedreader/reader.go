// Package versioned reads people's Secrets and ConfigMaps once per version. A
// thousand workspaces that share a credential ask for it a thousand times when
// the manager starts or the credential changes; the API server is asked once.
package cachedreader

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostKept is how many objects are kept, mostBytes how large one may be that is.
const (
	mostKept  = 256
	mostBytes = 64 << 10
)

// Reader reads past the cache. A Secret or ConfigMap that it has read before is
// not read again while the metadata cache knows the same version of it; the
// event of a newer version brings whoever waits for it back. Everything else is
// read from the API server each time.
type Reader struct {
	live client.Reader
	// metadata knows the versions.
	metadata client.Reader

	mu   sync.Mutex
	kept map[identity]client.Object
	// order is the order in which objects were kept, the oldest first.
	order []identity
}

var _ client.Reader = &Reader{}

type identity struct {
	kind string
	key  client.ObjectKey
}

// NewReader returns a reader that has kept nothing. metadata is a cache of the
// metadata of Secrets and ConfigMaps; what it does not know is always read.
func NewReader(live, metadata client.Reader) *Reader {
	return &Reader{live: live, metadata: metadata, kept: map[identity]client.Object{}}
}

// List reads from the API server.
func (r *Reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.live.List(ctx, list, opts...)
}

// Get reads an object, from the API server unless its version is at hand.
func (r *Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, kind := kindOf(obj)
	if !kind || len(opts) > 0 {
		return r.live.Get(ctx, key, obj, opts...)
	}
	id := identity{kind: gvk.Kind, key: key}
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(gvk)
	if err := r.metadata.Get(ctx, key, known); err != nil {
		// Whatever keeps the cache from answering, the API server knows. What is
		// not watched is not kept.
		return r.live.Get(ctx, key, obj)
	}
	if r.take(id, known.GetResourceVersion(), obj) {
		return nil
	}
	if err := r.live.Get(ctx, key, obj); err != nil {
		return err
	}
	r.keep(id, obj)
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

// take copies the kept object of the version, if there is one.
func (r *Reader) take(id identity, version string, into client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, found := r.kept[id]
	if !found || kept.GetResourceVersion() != version {
		return false
	}
	switch kept := kept.(type) {
	case *corev1.Secret:
		kept.DeepCopyInto(into.(*corev1.Secret))
	case *corev1.ConfigMap:
		kept.DeepCopyInto(into.(*corev1.ConfigMap))
	}
	return true
}

// keep remembers an object in place of its earlier version, and forgets the
// oldest when there are too many.
func (r *Reader) keep(id identity, obj client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if size(obj) > mostBytes {
		delete(r.kept, id)
		return
	}
	if _, found := r.kept[id]; !found {
		r.order = append(r.order, id)
	}
	r.kept[id] = obj.DeepCopyObject().(client.Object)
	for len(r.order) > mostKept {
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
}

func size(obj client.Object) int {
	n := 0
	switch obj := obj.(type) {
	case *corev1.Secret:
		for _, value := range obj.Data {
			n += len(value)
		}
	case *corev1.ConfigMap:
		for _, value := range obj.Data {
			n += len(value)
		}
		for _, value := range obj.BinaryData {
			n += len(value)
		}
	}
	return n
}

package web

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pools keep one copy of an object for all users who received it, by the type of the
// object. Without pools, each user has copies of his own.
type pools map[reflect.Type]sharer

// sharer is a pool of any type.
type sharer interface {
	// share trims an object unless it is shared already.
	share(obj client.Object) client.Object
}

func newPools() pools {
	all := pools{}
	for _, kind := range kinds() {
		all[reflect.TypeOf(kind.object)] = kind.newPool()
	}
	return all
}

// transform removes what no view shows from an object, and returns the copy that its
// users share. That is never modified again.
func (p pools) transform(obj any) (any, error) {
	object, found := obj.(client.Object)
	if !found {
		// A tombstone has what was stored before.
		return obj, nil
	}
	if pool := p[reflect.TypeOf(object)]; pool != nil {
		return pool.share(object), nil
	}
	trim(object)
	return object, nil
}

// pool has the objects of a type that are in use.
type pool[T any, P interface {
	*T
	client.Object
}] struct {
	mu     sync.Mutex
	copies map[version]weak.Pointer[T]
}

// version identifies a version of an object.
type version struct {
	uid             types.UID
	resourceVersion string
}

// share returns the copy of an object that others use, if it is equal: users see what they
// received with their own requests.
func (p *pool[T, P]) share(obj client.Object) client.Object {
	own, found := obj.(P)
	v := version{uid: obj.GetUID(), resourceVersion: obj.GetResourceVersion()}
	if !found || v.uid == "" || v.resourceVersion == "" {
		trim(obj)
		return obj
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.copies[v].Value()
	if shared == (*T)(own) {
		// Informers pass some objects twice, and others may read this one already.
		return own
	}
	trim(own)
	switch {
	case shared == nil:
		p.copies[v] = weak.Make((*T)(own))
		runtime.AddCleanup((*T)(own), p.forget, v)
	case reflect.DeepEqual(shared, (*T)(own)):
		return P(shared)
	}
	return own
}

// forget removes a version that no user has any more.
func (p *pool[T, P]) forget(v version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copies[v].Value() == nil {
		delete(p.copies, v)
	}
}

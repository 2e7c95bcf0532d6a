package cachedreader

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// server is an API server that counts its reads.
type server struct {
	client.WithWatch
	reads int
}

func newServer(objects ...client.Object) *server {
	s := &server{}
	s.WithWatch = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			s.reads++
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	return s
}

// metadata is a metadata cache with the given resource versions.
type metadata map[client.ObjectKey]string

func (m metadata) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	version, found := m[key]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	obj.SetResourceVersion(version)
	return nil
}

func (m metadata) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Data: map[string][]byte{"k": []byte(value)}}
}

var key = client.ObjectKey{Namespace: "n", Name: "s"}

func TestReader_readsEachVersionOnce(t *testing.T) {
	g := NewWithT(t)
	api := newServer(secret("s", "one"))
	known := metadata{}
	r := NewReader(api, known)
	var got corev1.Secret
	read := func() string {
		got = corev1.Secret{}
		g.Expect(r.Get(t.Context(), key, &got)).To(Succeed())
		return string(got.Data["k"])
	}

	g.Expect(read()).To(Equal("one"))
	g.Expect(read()).To(Equal("one"))
	g.Expect(api.reads).To(Equal(2), "the metadata cache does not contain it yet")

	known[key] = got.ResourceVersion
	g.Expect(read()).To(Equal("one"))
	got.Data["k"][0] = 'X'
	g.Expect(read()).To(Equal("one"), "a change of the returned object does not reach the cache")
	g.Expect(api.reads).To(Equal(3), "the version is cached")

	changed := got.DeepCopy()
	changed.Data["k"] = []byte("two")
	g.Expect(api.Update(t.Context(), changed)).To(Succeed())
	known[key] = changed.ResourceVersion
	g.Expect(read()).To(Equal("two"))
	g.Expect(api.reads).To(Equal(4), "a new version")
	g.Expect(read()).To(Equal("two"))
	g.Expect(api.reads).To(Equal(4))

	g.Expect(api.Delete(t.Context(), changed)).To(Succeed())
	delete(known, key)
	g.Expect(apierrors.IsNotFound(r.Get(t.Context(), key, &got))).To(BeTrue())
}

func TestReader_limitsTheNumberAndSizeOfObjects(t *testing.T) {
	g := NewWithT(t)
	objects := []client.Object{secret("large", string(make([]byte, maxBytes+1)))}
	for i := range maxObjects + 5 {
		objects = append(objects, secret(fmt.Sprintf("s%d", i), "x"))
	}
	known := metadata{}
	r := NewReader(newServer(objects...), known)
	for _, obj := range objects {
		known[client.ObjectKeyFromObject(obj)] = "1"
	}
	for _, obj := range objects {
		g.Expect(r.Get(t.Context(), client.ObjectKeyFromObject(obj), &corev1.Secret{})).To(Succeed())
	}

	g.Expect(r.cached.Len()).To(Equal(maxObjects))
	for name, why := range map[string]string{"s0": "the oldest is removed first", "large": "it is too large"} {
		_, found := r.cached.Get(identity{"Secret", client.ObjectKey{Namespace: "n", Name: name}})
		g.Expect(found).To(BeFalse(), why)
	}
}

func TestReader_removesAnObjectThatGrewTooLarge(t *testing.T) {
	g := NewWithT(t)
	r := NewReader(newServer(), metadata{})
	id := identity{"Secret", key}

	r.store(id, secret("s", "small"))
	r.store(id, secret("s", string(make([]byte, maxBytes+1))))
	g.Expect(r.cached.Len()).To(BeZero())
}

func TestReader_cachesNoOtherKinds(t *testing.T) {
	g := NewWithT(t)
	api := newServer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}})
	r := NewReader(api, metadata{key: "999"})

	for range 2 {
		g.Expect(r.Get(t.Context(), key, &corev1.Pod{})).To(Succeed())
	}

	g.Expect(api.reads).To(Equal(2))
}

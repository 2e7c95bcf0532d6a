package connection

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func newObjects(t *testing.T, selected string, existing ...client.Object) *objects {
	t.Helper()
	// The fake client does not send the objects that exist to a watch.
	lists := interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
		var options client.ListOptions
		options.ApplyOptions(opts)
		if options.Raw.SendInitialEvents != nil {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		return c.Watch(ctx, list, opts...)
	}}
	o := &objects{
		client: fake.NewClientBuilder().WithRESTMapper(newMapper(nil)).WithObjects(existing...).WithInterceptorFuncs(lists).Build(), ctx: t.Context(), memory: &budget{memory: newMemory()}, informers: map[kind]*informer{},
		transform: func(in any) (any, error) {
			in.(client.Object).SetAnnotations(nil)
			return in, nil
		},
	}
	if selected != "" {
		o.selectors = map[schema.GroupKind]labels.Selector{{Kind: "ConfigMap"}: labels.SelectorFromSet(labels.Set{"app": selected})}
	}
	return o
}

func configMap(namespace, name, app string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app": app}, Annotations: map[string]string{"long": "text"},
	}}
}

func TestObjects_readsTypedAndUnstructured(t *testing.T) {
	g := NewWithT(t)
	o := newObjects(t, "", configMap("a", "one", "x"), configMap("a", "two", "y"), configMap("b", "one", "x"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})

	var found corev1.ConfigMap
	g.Expect(o.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &found)).To(Succeed())
	g.Expect(found.Labels).To(HaveKeyWithValue("app", "x"))
	g.Expect(found.Annotations).To(BeEmpty(), "they are removed")
	found.Labels["app"] = "changed"
	var again corev1.ConfigMap
	g.Expect(o.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &again)).To(Succeed())
	g.Expect(again.Labels).To(HaveKeyWithValue("app", "x"), "the caller has a copy")
	g.Expect(apierrors.IsNotFound(o.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "two"}, &found))).To(BeTrue())
	g.Expect(o.Get(t.Context(), client.ObjectKey{Namespace: "any", Name: "n"}, &corev1.Node{})).To(Succeed(), "it has no namespace")

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	count := func(opts ...client.ListOption) int {
		g.Expect(o.List(t.Context(), list, opts...)).To(Succeed())
		return len(list.Items)
	}
	g.Expect(count()).To(Equal(3))
	g.Expect(count(client.InNamespace("a"))).To(Equal(2))
	g.Expect(count(client.InNamespace("a"), client.MatchingLabels{"app": "x"})).To(Equal(1))
	g.Expect(list.Items[0].GetKind()).To(Equal("ConfigMap"))
	g.Expect(count(client.Limit(2))).To(Equal(2))
	g.Expect(o.List(t.Context(), list, client.MatchingFields{"metadata.name": "one"})).To(MatchError(errFields))
	g.Expect(o.Get(t.Context(), client.ObjectKey{Name: "n"}, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}})).To(MatchError(errMetadata))
	g.Expect(o.informers).To(HaveLen(3), "typed and unstructured objects, and nodes")
}

func TestObjects_followsSelectedObjects(t *testing.T) {
	g := NewWithT(t)
	o := newObjects(t, "x", configMap("a", "one", "x"), configMap("a", "other", "y"))
	watching := make(chan struct{}, 10)
	o.client = interceptor.NewClient(o.client, interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
		w, err := c.Watch(ctx, list, opts...)
		if err == nil {
			watching <- struct{}{}
		}
		return w, err
	}})
	informer, err := o.GetInformer(t.Context(), &corev1.ConfigMap{})
	g.Expect(err).NotTo(HaveOccurred())
	events := make(chan string, 10)
	record(g, informer.AddEventHandler, events)
	g.Expect(events).To(Receive(Equal("add one true")))

	g.Eventually(watching).Should(Receive(), "the fake client sends no earlier changes")
	g.Expect(o.client.Create(t.Context(), configMap("a", "two", "x"))).To(Succeed())
	g.Eventually(events).Should(Receive(Equal("add two false")))
	changed := configMap("a", "two", "x")
	changed.Data = map[string]string{"a": "b"}
	g.Expect(o.client.Update(t.Context(), changed)).To(Succeed())
	g.Eventually(events).Should(Receive(Equal("update two two")))
	g.Expect(o.client.Delete(t.Context(), changed)).To(Succeed())
	g.Eventually(events).Should(Receive(Equal("delete two")))
	g.Expect(o.client.Create(t.Context(), configMap("a", "another", "y"))).To(Succeed())
	g.Expect(o.client.Create(t.Context(), configMap("a", "three", "x"))).To(Succeed())
	var next string
	g.Eventually(events).Should(Receive(&next))
	g.Expect(next).To(Equal("add three false"), "other objects are not selected")
}

// An API server sends the objects that exist as events, and a bookmark after them.
func TestObjects_readsAStreamedList(t *testing.T) {
	g := NewWithT(t)
	next, requests := make(chan string), make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path + " " + r.URL.Query().Get("labelSelector") + " " + r.URL.Query().Get("sendInitialEvents")
		w.Header().Set("Content-Type", "application/json")
		for {
			select {
			case line := <-next:
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(server.Close)
	t.Cleanup(cancel)
	c, err := client.NewWithWatch(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{Mapper: newMapper(nil)})
	g.Expect(err).NotTo(HaveOccurred())
	o := &objects{client: c, ctx: ctx, memory: &budget{memory: newMemory()}, informers: map[kind]*informer{}, selectors: map[schema.GroupKind]labels.Selector{{Kind: "ConfigMap"}: labels.SelectorFromSet(labels.Set{"app": "x"})}}
	event := func(kind, name, version, annotations string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":%q,"resourceVersion":%q,"annotations":{%s}}}}`, kind, name, version, annotations)
	}
	go func() {
		for _, line := range []string{event("ADDED", "one", "1", ""), event("ADDED", "two", "2", ""), event("BOOKMARK", "", "2", `"k8s.io/initial-events-end":"true"`)} {
			next <- line
		}
	}()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	g.Expect(o.List(t.Context(), list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(2))
	g.Expect(requests).To(Receive(Equal("/api/v1/configmaps app=x true")))

	next <- event("DELETED", "two", "3", "")
	g.Eventually(func(g Gomega) {
		g.Expect(o.List(t.Context(), list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
	}).Should(Succeed())
	g.Expect(list.Items[0].GetName()).To(Equal("one"))
	g.Expect(requests).NotTo(Receive(), "the list and the watch are one request")
}

func TestObjects_waitsForTheFirstListOnlyAsLongAsTheCaller(t *testing.T) {
	g := NewWithT(t)
	o := newObjects(t, "")
	o.informers[kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod")}] = newInformer(kind{}, nil, false, &budget{memory: newMemory()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(apierrors.IsTimeout(o.Get(ctx, client.ObjectKey{Namespace: "a", Name: "p"}, &corev1.Pod{}))).To(BeTrue())
	g.Expect(o.WaitForCacheSync(ctx)).To(BeFalse())
}

// A controller waits for a kind with a context that does not end with the connection.
func TestObjects_endsWaitsWithTheConnection(t *testing.T) {
	g := NewWithT(t)
	ctx, disconnect := context.WithCancel(t.Context())
	requested := make(chan struct{}, 100)
	o := newObjects(t, "")
	o.ctx = ctx
	o.client = interceptor.NewClient(o.client, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		requested <- struct{}{}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
	}})
	type result struct {
		informer cache.Informer
		err      error
		synced   bool
	}
	waits := make(chan result, 1)
	go func() {
		i, err := o.GetInformer(context.WithoutCancel(t.Context()), &corev1.ConfigMap{})
		waits <- result{i, err, o.WaitForCacheSync(context.WithoutCancel(t.Context()))}
	}()
	for range 2 {
		g.Eventually(requested).Should(Receive())
	}
	g.Expect(waits).NotTo(Receive(), "the first failure does not end the wait")
	disconnect()
	var got result
	g.Eventually(waits).Should(Receive(&got))
	g.Expect(got.err).NotTo(HaveOccurred(), "a controller would ask again and again")
	g.Expect(got.synced).To(BeTrue())
	g.Expect(got.informer.IsStopped()).To(BeTrue())

	g.Expect(o.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.ConfigMap{})).To(MatchError(errDisconnected))
	g.Expect(o.List(t.Context(), &corev1.ConfigMapList{})).To(MatchError(errDisconnected), "it is not known to be empty")
	g.Expect(o.List(t.Context(), &corev1.NodeList{})).To(MatchError(errDisconnected), "a kind that was not read before")
}

func TestObjects_copiesOnlyIfTheCallerMayChangeObjects(t *testing.T) {
	g := NewWithT(t)
	o := newObjects(t, "", configMap("a", "one", "x"))
	stored := func() map[string]string {
		found, _, err := o.informers[kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}].store.GetByKey("a/one")
		g.Expect(err).NotTo(HaveOccurred())
		return found.(*corev1.ConfigMap).Labels
	}
	var list corev1.ConfigMapList
	g.Expect(o.List(t.Context(), &list, client.UnsafeDisableDeepCopy)).To(Succeed())
	list.Items[0].Labels["written"] = "by the caller"
	g.Expect(stored()).To(HaveKey("written"))
	var one corev1.ConfigMap
	g.Expect(o.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &one, client.UnsafeDisableDeepCopy)).To(Succeed())
	one.Labels["written too"] = "by the caller"
	g.Expect(stored()).To(HaveKey("written too"))

	g.Expect(o.List(t.Context(), &list)).To(Succeed())
	list.Items[0].Labels["copied"] = "yes"
	g.Expect(stored()).NotTo(HaveKey("copied"))
}

func TestInformer_reportsWhatARelistChanges(t *testing.T) {
	g := NewWithT(t)
	i := newInformer(kind{}, nil, false, &budget{memory: newMemory()})
	events := make(chan string, 10)
	handle := record(g, i.AddEventHandler, events)
	version := func(name, version string) *corev1.ConfigMap {
		obj := configMap("a", name, "x")
		obj.ResourceVersion = version
		return obj
	}
	g.Expect(i.HasSynced()).To(BeFalse())
	g.Expect(i.Replace([]any{version("one", "1"), version("two", "1"), version("three", "1")}, "1")).To(Succeed())
	g.Expect(i.HasSynced()).To(BeTrue())
	for _, name := range []string{"one", "two", "three"} {
		g.Expect(events).To(Receive(Equal("add " + name + " true")))
	}
	g.Expect(i.Replace([]any{version("one", "1"), version("two", "2")}, "2")).To(Succeed())
	g.Expect(events).To(Receive(Equal("update two two")))
	g.Expect(events).To(Receive(Equal("delete three")))
	g.Expect(events).NotTo(Receive(), "an object that did not change")

	g.Expect(i.Resync()).To(Succeed())
	g.Expect(events).To(HaveLen(2), "all objects")
	g.Expect(i.RemoveEventHandler(handle)).To(Succeed())
	g.Expect(i.Delete(version("one", "3"))).To(Succeed())
	g.Expect(events).To(HaveLen(2), "the handler is removed")
	g.Expect(i.store.ListKeys()).To(ConsistOf("a/two"))
}

// record adds a handler that sends what it gets.
func record(g Gomega, add func(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error), events chan<- string) toolscache.ResourceEventHandlerRegistration {
	name := func(obj any) string {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		return obj.(client.Object).GetName()
	}
	handle, err := add(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { events <- fmt.Sprintf("add %s %t", name(obj), initial) },
		UpdateFunc: func(from, to any) { events <- fmt.Sprintf("update %s %s", name(from), name(to)) },
		DeleteFunc: func(obj any) { events <- "delete " + name(obj) },
	})
	g.Expect(err).NotTo(HaveOccurred())
	return handle
}

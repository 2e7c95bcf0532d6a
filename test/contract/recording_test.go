package contract

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/appthrust/capt/internal/testenv"
)

// recording contains every version of every object of the contract's kinds, in order,
// to check invariants.
var recording = struct {
	sync.Mutex
	versions map[schema.GroupKind]map[client.ObjectKey][]*unstructured.Unstructured
	deleted  map[types.UID]bool
}{versions: map[schema.GroupKind]map[client.ObjectKey][]*unstructured.Unstructured{}, deleted: map[types.UID]bool{}}

// startRecording starts watching before the first object is created.
func startRecording(e *testenv.Environment) error {
	ctx, cancel := context.WithCancel(context.Background())
	e.OnStop(func() error { cancel(); return nil })
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, s := range subjects {
		kinds = append(kinds, s.kind)
	}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		w, err := e.Watch(ctx, list)
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
		go record(kind.GroupKind(), w)
	}
	return nil
}

func record(kind schema.GroupKind, w watch.Interface) {
	for event := range w.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		recording.Lock()
		if recording.versions[kind] == nil {
			recording.versions[kind] = map[client.ObjectKey][]*unstructured.Unstructured{}
		}
		key := client.ObjectKeyFromObject(obj)
		recording.versions[kind][key] = append(recording.versions[kind][key], obj)
		if event.Type == watch.Deleted {
			recording.deleted[obj.GetUID()] = true
		}
		recording.Unlock()
	}
}

// historyOf returns every version of an object so far, at least up to latest.
func historyOf[T client.Object](h *harness, latest T, empty func() T) []T {
	gvk, err := apiutil.GVKForObject(latest, h.env.Scheme)
	h.Expect(err).NotTo(HaveOccurred())
	var versions []*unstructured.Unstructured
	h.Eventually(func(g Gomega) {
		recording.Lock()
		defer recording.Unlock()
		versions = recording.versions[gvk.GroupKind()][client.ObjectKeyFromObject(latest)]
		g.Expect(versions).To(ContainElement(HaveField("GetResourceVersion()", latest.GetResourceVersion())))
	}, testTimeout).Should(Succeed())
	return converted(h, versions, empty)
}

// historyUntilDeleted returns every version of a deleted object.
func historyUntilDeleted[T client.Object](h *harness, was T, empty func() T) []T {
	gvk, err := apiutil.GVKForObject(was, h.env.Scheme)
	h.Expect(err).NotTo(HaveOccurred())
	var versions []*unstructured.Unstructured
	h.Eventually(func(g Gomega) {
		recording.Lock()
		defer recording.Unlock()
		g.Expect(recording.deleted).To(HaveKey(was.GetUID()))
		versions = recording.versions[gvk.GroupKind()][client.ObjectKeyFromObject(was)]
	}, testTimeout).Should(Succeed())
	return converted(h, versions, empty)
}

// historiesOf returns every version of every object of a kind so far.
func historiesOf[T client.Object](h *harness, empty func() T) map[client.ObjectKey][]T {
	gvk, err := apiutil.GVKForObject(empty(), h.env.Scheme)
	h.Expect(err).NotTo(HaveOccurred())
	recording.Lock()
	defer recording.Unlock()
	all := map[client.ObjectKey][]T{}
	for key, versions := range recording.versions[gvk.GroupKind()] {
		all[key] = converted(h, versions, empty)
	}
	return all
}

func converted[T client.Object](h *harness, versions []*unstructured.Unstructured, empty func() T) []T {
	var history []T
	for _, version := range versions {
		obj := empty()
		h.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(version.Object, obj)).To(Succeed())
		history = append(history, obj)
	}
	return history
}

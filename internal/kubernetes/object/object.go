// Package object reads and applies Kubernetes objects, and follows the references between them.
package object

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind returns the kind of a typed object, which is the name of its type. TypeMeta
// does not have it: a typed client leaves it empty.
func Kind(obj client.Object) string { return reflect.TypeOf(obj).Elem().Name() }

// Metadata returns an object of a kind of which only the metadata is read.
func Metadata(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// Apply applies an object without its status by server-side apply. The manager takes over fields
// of others. The object needs its TypeMeta, and is not changed.
func Apply(ctx context.Context, c client.Client, obj client.Object, manager string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	body := &unstructured.Unstructured{Object: content}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", body.GetKind(), client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// ConfigMapData returns the text and binary data of a ConfigMap.
func ConfigMapData(configMap *corev1.ConfigMap) map[string][]byte {
	data := map[string][]byte{}
	maps.Copy(data, configMap.BinaryData)
	for key, text := range configMap.Data {
		data[key] = []byte(text)
	}
	return data
}

// Cycle follows the references of objects, and returns the path from start back to
// start, or nil if there is none. Both ends of the path are start. references is
// called at most once per object.
func Cycle[K comparable](start K, references func(K) ([]K, error)) ([]K, error) {
	seen := map[K]bool{}
	var follow func(path []K) ([]K, error)
	follow = func(path []K) ([]K, error) {
		next, err := references(path[len(path)-1])
		if err != nil {
			return nil, err
		}
		for _, key := range next {
			extended := append(slices.Clone(path), key)
			if key == start {
				return extended, nil
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			if cycle, err := follow(extended); err != nil || cycle != nil {
				return cycle, err
			}
		}
		return nil, nil
	}
	return follow([]K{start})
}

// Package object reads Kubernetes objects and the references between them.
package object

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind returns the kind of a typed object, which is the name of its type. TypeMeta
// does not have it: a typed client leaves it empty.
func Kind(obj client.Object) string { return reflect.TypeOf(obj).Elem().Name() }

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

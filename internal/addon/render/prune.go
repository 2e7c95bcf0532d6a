package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// Dropped returns the objects of previous that are not in current. An object in
// another version of its API is the same object.
func Dropped(previous, current []Object) []Object {
	var dropped []Object
	for _, o := range previous {
		same := func(other Object) bool {
			return o.GroupKind() == other.GroupKind() && o.Namespace == other.Namespace && o.Name == other.Name
		}
		if !slices.ContainsFunc(current, same) && !slices.ContainsFunc(dropped, same) {
			dropped = append(dropped, o)
		}
	}
	return dropped
}

// ObjectsOf returns the objects in the data of a rendered Secret. Texts that do
// not parse, because a user edited them, are skipped.
func ObjectsOf(data map[string][]byte) []Object {
	var objects []Object
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := manifest.Parse(data[key])
		if err != nil {
			continue
		}
		for _, obj := range parsed {
			objects = append(objects, IdentityOf(obj))
		}
	}
	return objects
}

// EncodeObjects returns objects as the value of an annotation. No objects are
// the empty string.
func EncodeObjects(objects []Object) (string, error) {
	if len(objects) == 0 {
		return "", nil
	}
	references := make([]corev1.ObjectReference, 0, len(objects))
	for _, o := range objects {
		references = append(references, corev1.ObjectReference{APIVersion: o.GroupVersion().String(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
	}
	text, err := json.Marshal(references)
	if err != nil {
		return "", fmt.Errorf("encoding object references: %w", err)
	}
	return string(text), nil
}

// DecodeObjects returns the objects of an annotation that EncodeObjects wrote.
func DecodeObjects(text string) ([]Object, error) {
	if text == "" {
		return nil, nil
	}
	var references []corev1.ObjectReference
	if err := json.Unmarshal([]byte(text), &references); err != nil {
		return nil, fmt.Errorf("decoding object references: %w", err)
	}
	objects := make([]Object, 0, len(references))
	for _, r := range references {
		objects = append(objects, Object{
			GroupVersionKind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: r.Namespace, Name: r.Name,
		})
	}
	return objects, nil
}

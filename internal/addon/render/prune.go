package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// reference is how an object is written down.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Dropped are the objects of before that after does not have. Another version of
// the same kind is the same object.
func Dropped(before, after []Object) []Object {
	var dropped []Object
	for _, o := range before {
		same := func(other Object) bool {
			return o.GroupKind() == other.GroupKind() && o.Namespace == other.Namespace && o.Name == other.Name
		}
		if !slices.ContainsFunc(after, same) && !slices.ContainsFunc(dropped, same) {
			dropped = append(dropped, o)
		}
	}
	return dropped
}

// ObjectsOf are the objects in the data of a rendered Secret. What cannot be
// read, because somebody has edited it, has none.
func ObjectsOf(data map[string][]byte) []Object {
	var objects []Object
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := manifest.Parse(data[key])
		if err != nil {
			continue
		}
		for _, obj := range parsed {
			objects = append(objects, identity(obj))
		}
	}
	return objects
}

// WriteObjects writes objects down for an annotation; none is the empty text.
func WriteObjects(objects []Object) (string, error) {
	if len(objects) == 0 {
		return "", nil
	}
	references := make([]reference, 0, len(objects))
	for _, o := range objects {
		references = append(references, reference{APIVersion: o.GroupVersion().String(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
	}
	text, err := json.Marshal(references)
	if err != nil {
		return "", fmt.Errorf("encoding names of objects: %w", err)
	}
	return string(text), nil
}

// ReadObjects reads what WriteObjects wrote.
func ReadObjects(text string) ([]Object, error) {
	if text == "" {
		return nil, nil
	}
	var references []reference
	if err := json.Unmarshal([]byte(text), &references); err != nil {
		return nil, fmt.Errorf("decoding names of objects: %w", err)
	}
	objects := make([]Object, 0, len(references))
	for _, r := range references {
		objects = append(objects, Object{
			GroupVersionKind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: r.Namespace, Name: r.Name,
		})
	}
	return objects, nil
}

// Named is an object of which only the name is known.
func Named(o Object) *unstructured.Unstructured {
	return object(o.GroupVersion().String(), o.Kind, o.Namespace, o.Name, nil)
}

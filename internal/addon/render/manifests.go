package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// manifests returns the objects of a manifest source. Placeholders in inline
// manifests are resolved after parsing, so that a value always stays inside its
// string, or with ${json:NAME} inside the field.
func (in *Input) manifests(source addonsv1.ManifestSource, values map[string]string) ([]*unstructured.Unstructured, error) {
	if source.Inline == "" {
		return in.referencedManifests(source)
	}
	objects, err := manifest.Parse([]byte(source.Inline))
	if err != nil {
		return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: manifests %s: %w", in.Addon.Name, source.Name, err)
	}
	for _, obj := range objects {
		resolved, err := expand(obj.Object, values)
		if err != nil {
			return nil, in.unresolved(fmt.Sprintf("manifests %s: %s %s", source.Name, obj.GetKind(), obj.GetName()), values, err)
		}
		content, ok := resolved.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("resolving %s: not an object", obj.GetName())
		}
		obj.Object = content
	}
	return objects, nil
}

// referencedManifests returns the objects of a ConfigMap or Secret. Their
// placeholders are not resolved.
func (in *Input) referencedManifests(source addonsv1.ManifestSource) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	data := in.Sources[source.Name]
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := manifest.Parse(data[key])
		if err != nil {
			return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: manifests %s, key %s: %w", in.Addon.Name, source.Name, key, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// expand returns a copy of value with the placeholders in all its strings
// resolved.
func expand(value any, values map[string]string) (any, error) {
	switch value := value.(type) {
	case string:
		if name, found := placeholder.JSON(value); found {
			return decode(name, values)
		}
		return placeholder.Expand(value, lookup(values))
	case map[string]any:
		resolved := make(map[string]any, len(value))
		for key, item := range value {
			var err error
			if resolved[key], err = expand(item, values); err != nil {
				return nil, err
			}
		}
		return resolved, nil
	case []any:
		resolved := make([]any, len(value))
		for i, item := range value {
			var err error
			if resolved[i], err = expand(item, values); err != nil {
				return nil, err
			}
		}
		return resolved, nil
	default:
		return value, nil
	}
}

// decode returns the value of a placeholder that is JSON.
func decode(name string, values map[string]string) (any, error) {
	text, found := values[name]
	if !found {
		return nil, &placeholder.UnresolvedError{Names: []string{name}}
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		// The error quotes the value.
		return nil, fmt.Errorf("${json:%[1]s}: the value is not JSON: write ${%[1]s} for a string", name)
	}
	return value, nil
}

// unresolved returns the fault of a placeholder without a value.
func (in *Input) unresolved(where string, values map[string]string, err error) error {
	var missing *placeholder.UnresolvedError
	if !errors.As(err, &missing) || len(missing.Names) == 0 {
		return fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: %s: %w", in.Addon.Name, where, err)
	}
	if near, found := message.Nearest(missing.Names[0], slices.Sorted(maps.Keys(values))); found {
		return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s: %w: did you mean ${%s}?", in.Addon.Name, where, err, near)
	}
	return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s: %w: add it to connection.keys if it is an output", in.Addon.Name, where, err)
}

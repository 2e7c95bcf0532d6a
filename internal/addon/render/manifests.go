package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// manifests returns the objects of a manifest source. Placeholders in inline
// manifests are resolved after parsing, so that a value always stays inside its
// string, or with ${json:NAME} inside the field.
func (in *Input) manifests(source addonsv1.ManifestSource, values map[string]string, b *budget) ([]*unstructured.Unstructured, error) {
	if source.Inline == "" {
		return in.referencedManifests(source, b)
	}
	objects, err := b.memory.Parse([]byte(source.Inline))
	if err != nil {
		return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: manifests %s: %w", in.Addon.Name, source.Name, err)
	}
	for _, obj := range objects {
		resolved, err := b.resolve(obj.Object, values)
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
func (in *Input) referencedManifests(source addonsv1.ManifestSource, b *budget) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	data := in.Sources[source.Name]
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parsed, err := b.memory.Parse(data[key])
		if err != nil {
			return nil, fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: manifests %s, key %s: %w", in.Addon.Name, source.Name, key, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// resolve returns a copy of value with the placeholders in all its strings
// resolved.
func (b *budget) resolve(value any, values map[string]string) (any, error) {
	switch value := value.(type) {
	case string:
		if name, found := placeholder.JSON(value); found {
			return b.decode(name, values)
		}
		return b.expand(value, values)
	case map[string]any:
		resolved := make(map[string]any, len(value))
		for key, item := range value {
			var err error
			if resolved[key], err = b.resolve(item, values); err != nil {
				return nil, err
			}
		}
		return resolved, nil
	case []any:
		resolved := make([]any, len(value))
		for i, item := range value {
			var err error
			if resolved[i], err = b.resolve(item, values); err != nil {
				return nil, err
			}
		}
		return resolved, nil
	default:
		return value, nil
	}
}

// decode returns the value of a placeholder that is JSON.
func (b *budget) decode(name string, values map[string]string) (any, error) {
	text, found := values[name]
	if !found {
		return nil, &placeholder.UnresolvedError{Names: []string{name}}
	}
	if err := b.memory.CheckJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("${json:%s}: %w", name, err)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		// The error quotes the value.
		return nil, fmt.Errorf("${json:%[1]s}: the value is not JSON: write ${%[1]s} for a string", name)
	}
	return value, nil
}

// unresolved returns the fault of a placeholder that cannot be resolved.
func (in *Input) unresolved(where string, values map[string]string, err error) error {
	if tooLong, found := errors.AsType[*placeholder.TooLongError](err); found {
		return fault.Stall(addonsv1.TooLargeReason, "Add-on %s: %s: with ${%s}, its strings have more than %d KiB, the limit: use shorter outputs, or use them less often",
			in.Addon.Name, where, tooLong.Name, maxBytes>>10)
	}
	var missing *placeholder.UnresolvedError
	if !errors.As(err, &missing) || len(missing.Names) == 0 {
		return fault.Stall(addonsv1.InvalidManifestReason, "Add-on %s: %s: %w", in.Addon.Name, where, err)
	}
	if near, found := message.Nearest(missing.Names[0], slices.Sorted(maps.Keys(values))); found {
		return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s: %w: did you mean ${%s}?", in.Addon.Name, where, err, near)
	}
	return fault.Stall(addonsv1.MissingKeyReason, "Add-on %s: %s: %w: add it to connection.keys if it is an output", in.Addon.Name, where, err)
}

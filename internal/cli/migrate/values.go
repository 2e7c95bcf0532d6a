package migrate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonrender "github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/addon/targetpath"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// fluxValues returns the values that Flux will give to the chart, computed from the
// manifests that CAPT renders for the cluster.
func fluxValues(rendered *addonrender.Rendered) (map[string]any, error) {
	values, data := map[string]any{}, map[string]string{}
	var references []any
	for _, key := range slices.Sorted(maps.Keys(rendered.Data)) {
		objects, err := manifest.Parse(rendered.Data[key])
		if err != nil {
			return nil, fmt.Errorf("reading the rendered add-on: %w", err)
		}
		for _, obj := range objects {
			switch {
			case obj.GetKind() == "HelmRelease" && obj.GetName() == rendered.Release.Name:
				if given, found, err := unstructured.NestedMap(obj.Object, "spec", "values"); err == nil && found {
					values = given
				}
				references, _, err = unstructured.NestedSlice(obj.Object, "spec", "valuesFrom")
			case obj.GetKind() == "Secret":
				data, _, err = unstructured.NestedStringMap(obj.Object, "data")
			}
			if err != nil {
				return nil, fmt.Errorf("reading the rendered add-on: %w", err)
			}
		}
	}
	for _, r := range references {
		reference, ok := r.(map[string]any)
		if !ok {
			continue
		}
		key, _ := reference["valuesKey"].(string)
		path, _ := reference["targetPath"].(string)
		literal, _ := reference["literal"].(bool)
		text, err := base64.StdEncoding.DecodeString(data[key])
		if err != nil {
			return nil, fmt.Errorf("reading the output %s: %w", key, err)
		}
		segments, err := targetpath.Parse(path)
		if err != nil {
			return nil, fmt.Errorf("reading targetPath %s: %w", path, err)
		}
		values, _ = put(values, segments, scalar(string(text), literal)).(map[string]any)
	}
	return values, nil
}

// scalar returns the value that Helm's --set parses from a text, or the text itself
// if it is literal.
func scalar(text string, literal bool) any {
	if literal {
		return text
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && (text == "0" || !strings.HasPrefix(text, "0")) {
		return float64(n)
	}
	return text
}

// put returns a copy of in with a value set at a path.
func put(in any, path []targetpath.Segment, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0].IsIndex() {
		list, _ := in.([]any)
		list = slices.Clone(list)
		for len(list) <= path[0].Index {
			list = append(list, nil)
		}
		list[path[0].Index] = put(list[path[0].Index], path[1:], value)
		return list
	}
	existing, _ := in.(map[string]any)
	out := maps.Clone(existing)
	if out == nil {
		out = map[string]any{}
	}
	out[path[0].Name] = put(out[path[0].Name], path[1:], value)
	return out
}

// overlay merges values over the chart's defaults as Helm does: maps are merged,
// null removes a value, everything else is replaced.
func overlay(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		upper, isMap := value.(map[string]any)
		lower, wasMap := out[key].(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap && wasMap:
			out[key] = overlay(lower, upper)
		case isMap:
			out[key] = overlay(nil, upper)
		default:
			out[key] = value
		}
	}
	return out
}

// differences returns the paths at which two sets of values differ. It never returns
// values, which may be secret.
func differences(a, b map[string]any) []string {
	flatA, flatB := map[string]string{}, map[string]string{}
	flatten(a, nil, flatA)
	flatten(b, nil, flatB)
	all := maps.Clone(flatA)
	maps.Copy(all, flatB)
	maps.DeleteFunc(all, func(path, _ string) bool { return flatA[path] == flatB[path] })
	return slices.Sorted(maps.Keys(all))
}

// flatten adds the values to into by their path, as JSON, so that numbers of different types
// are comparable. Empty maps have no entry.
func flatten(values map[string]any, at []targetpath.Segment, into map[string]string) {
	for key, value := range values {
		path := append(slices.Clone(at), targetpath.Segment{Name: key})
		if inner, isMap := value.(map[string]any); isMap {
			flatten(inner, path, into)
			continue
		}
		// The values of a release and of a chart come from JSON and YAML.
		encoded, _ := json.Marshal(value)
		into[targetpath.Format(path)] = string(encoded)
	}
}

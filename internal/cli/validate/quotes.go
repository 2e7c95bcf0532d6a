package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quoteStrings reports numbers and booleans where a string is required: YAML reads 1.35, 123 and
// true as such without quotes. The object gets them as strings, so that the other checks
// continue with what the user meant.
func (c *checker) quoteStrings(o *Object) {
	typed := metadataType
	if known, err := c.scheme.New(o.GroupVersionKind()); err == nil {
		typed = reflect.TypeOf(known)
	}
	o.Unstructured = o.DeepCopy()
	for _, value := range unquoted(o.Object, typed, o.node, "") {
		c.add(o.fail(RuleSchema, value.path, "%s is %s: write it in quotes, %q", value.written, value.read, value.written))
	}
}

// metadataType has what all kinds have.
var metadataType = reflect.TypeFor[metav1.PartialObjectMetadata]()

// unquotedValue is a value that is not a string.
type unquotedValue struct {
	path, written string
	// read is what YAML reads.
	read string
}

// unmarshaler is implemented by types that decode values of several types.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unquoted returns the values that are not strings although their Go type is one, and makes them
// strings. The node is that of the value, or nil if it is not known.
func unquoted(value any, at reflect.Type, node *yaml3.Node, path string) []unquotedValue {
	at = element(at)
	if reflect.PointerTo(at).Implements(unmarshaler) {
		return nil
	}
	var found []unquotedValue
	visit := func(child any, childType reflect.Type, childPath, segment string, set func(string)) {
		_, childNode, _ := descendFrom(node, segment)
		if element(childType).Kind() != reflect.String || reflect.PointerTo(element(childType)).Implements(unmarshaler) {
			found = append(found, unquoted(child, childType, childNode, childPath)...)
		} else if read := scalarName(child); read != "" {
			written := fmt.Sprint(child)
			if childNode != nil && childNode.Kind == yaml3.ScalarNode {
				written = childNode.Value
			}
			found = append(found, unquotedValue{childPath, written, read})
			set(written)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		var types map[string]reflect.Type
		if at.Kind() == reflect.Struct {
			types = fields(at)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			childPath := strings.TrimPrefix(path+"."+name, ".")
			childType, known := types[name]
			if at.Kind() == reflect.Map {
				childType, known, childPath = at.Elem(), true, path+"["+name+"]"
			}
			if known {
				visit(v[name], childType, childPath, "["+name+"]", func(text string) { v[name] = text })
			}
		}
	case []any:
		if at.Kind() == reflect.Slice {
			for i := range v {
				segment := fmt.Sprintf("[%d]", i)
				visit(v[i], at.Elem(), path+segment, segment, func(text string) { v[i] = text })
			}
		}
	}
	return found
}

// descendFrom is descend for a node that may not be known.
func descendFrom(node *yaml3.Node, segment string) (key, value *yaml3.Node, rest string) {
	if node == nil {
		return nil, nil, ""
	}
	return descend(node, segment)
}

// scalarName returns what a value is that is neither a string nor composed of others.
func scalarName(value any) string {
	switch value.(type) {
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	default:
		return ""
	}
}

// decodingFinding returns the finding for an object that cannot be decoded.
func (o *Object) decodingFinding(err error) Finding {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return o.fail(RuleSchema, "", "%v", err)
	}
	return o.fail(RuleSchema, mismatch.Field, "expected %s, not %s", typeName(mismatch.Type), jsonName(mismatch.Value))
}

// typeName describes the values of a Go type.
func typeName(t reflect.Type) string {
	switch element(t).Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "a mapping"
	}
}

// jsonName describes a value by the words of the JSON library.
func jsonName(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "bool":
		return "a boolean"
	default:
		return "a " + value
	}
}

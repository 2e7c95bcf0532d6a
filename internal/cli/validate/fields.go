package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/appthrust/capt/internal/message"
)

// unknownField returns the message for a field that a kind does not have.
func unknownField(path string, known []string) string {
	name := path[strings.LastIndexAny(path, ".")+1:]
	text := fmt.Sprintf("unknown field %q", path)
	if nearest, found := message.Nearest(name, known); found {
		return text + fmt.Sprintf(": did you mean %s?", nearest)
	}
	if len(known) == 0 {
		return text + ": remove it"
	}
	const limit = 12
	return text + ": the known fields are " + message.List(known, limit)
}

var index = regexp.MustCompile(`\[\d+\]`)

// schemaPath returns the path to the parent of a field in a schema.
func schemaPath(path string) []string {
	parts := strings.Split(index.ReplaceAllString(path, ".[]"), ".")
	return parts[:len(parts)-1]
}

// strictError matches the JSON library's error for an unknown field.
var strictError = regexp.MustCompile(`^unknown field "(.*)"$`)

// decode decodes an object into its Go type. Unknown fields are findings. An object that
// cannot be decoded is an error.
func (o *Object) decode(scheme *runtime.Scheme) (runtime.Object, []Finding, error) {
	typed, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, nil, err
	}
	strict, err := kjson.UnmarshalStrict(text, typed)
	if err != nil {
		return nil, nil, err
	}
	var findings []Finding
	for _, problem := range strict {
		match := strictError.FindStringSubmatch(problem.Error())
		if match == nil {
			findings = append(findings, o.fail(RuleUnknownField, "", "%v", problem))
			continue
		}
		findings = append(findings, o.fail(RuleUnknownField, match[1], "%v", problem))
	}
	return typed, findings, nil
}

// decodingFinding returns the finding for an object that cannot be decoded, in the words of the
// schema checks.
func (o *Object) decodingFinding(err error) Finding {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return o.fail(RuleSchema, "", "%v", err)
	}
	at, name := mismatch.Type, "object"
	for at.Kind() == reflect.Pointer {
		at = at.Elem()
	}
	switch at.Kind() {
	case reflect.Bool:
		name = "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		name = "integer"
	case reflect.Float32, reflect.Float64:
		name = "number"
	case reflect.String:
		name = "string"
	case reflect.Slice, reflect.Array:
		name = "array"
	}
	return o.fail(RuleSchema, mismatch.Field, "%s", withQuotes(fmt.Sprintf("must be of type %s: %q", name, mismatch.Value)))
}

// unquoted matches the messages for a number or a boolean where a string is required.
var unquoted = regexp.MustCompile(`must be of type string: "(number|integer|boolean|bool)"$`)

// withQuotes adds how to fix a number or a boolean where a string is required: YAML reads 1.35,
// 123 and true as such.
func withQuotes(message string) string {
	if unquoted.MatchString(message) {
		return message + ": write it in quotes"
	}
	return message
}

// knownKinds returns the kinds and versions of a group.
func knownKinds(all map[schema.GroupVersionKind]*kind, scheme *runtime.Scheme, group string) (kinds, versions []string) {
	for gvk := range all {
		if gvk.Group == group {
			kinds, versions = append(kinds, gvk.Kind), append(versions, gvk.GroupVersion().String())
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Group == group && gvk.Version != runtime.APIVersionInternal && !strings.HasSuffix(gvk.Kind, "List") && !strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "WatchEvent" {
			kinds, versions = append(kinds, gvk.Kind), append(versions, gvk.GroupVersion().String())
		}
	}
	slices.Sort(kinds)
	slices.Sort(versions)
	return slices.Compact(kinds), slices.Compact(versions)
}

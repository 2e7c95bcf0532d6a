package validate

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fieldsOf returns the JSON names of the fields of a type at the parent of a path.
func fieldsOf(typed any, path string) []string {
	at := reflect.TypeOf(typed)
	for _, segment := range schemaPath(path) {
		at = element(at)
		switch {
		case at.Kind() == reflect.Map, segment == "[]" && at.Kind() == reflect.Slice:
			at = at.Elem()
		case at.Kind() == reflect.Struct:
			next, found := fields(at)[segment]
			if !found {
				return nil
			}
			at = next
		default:
			return nil
		}
	}
	if at = element(at); at.Kind() != reflect.Struct {
		return nil
	}
	return slices.Sorted(maps.Keys(fields(at)))
}

// element returns the type that a pointer type points to, or the type itself.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fields returns the types of a struct's fields by their JSON names.
func fields(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "inline") || f.Anonymous && name == "":
			if inner := element(f.Type); inner.Kind() == reflect.Struct {
				maps.Copy(all, fields(inner))
			}
		case name != "" && name != "-":
			all[name] = f.Type
		}
	}
	return all
}

package chart

import (
	"regexp"
	"strings"

	"github.com/appthrust/capt/internal/addon/targetpath"
)

// verdict is whether a schema allows a path.
type verdict int

const (
	// unspecified is a path that the schema neither defines nor forbids.
	unspecified verdict = iota
	// allowed is a path that the schema defines.
	allowed
	// forbidden is a path that the schema forbids.
	forbidden
)

// schema is a JSON schema, or a part of one. The root is needed to resolve $ref.
type schema struct {
	root, part map[string]any
	// refusesAll is true for the schema false.
	refusesAll bool
	// depth is the number of references that were followed.
	depth int
}

// maxReferences limits how many $ref are followed.
const maxReferences = 32

func schemaOf(root map[string]any) schema { return schema{root: root, part: root} }

// child returns a part of the schema.
func (s schema) child(part any) schema {
	next := schema{root: s.root, depth: s.depth}
	if allows, isBool := part.(bool); isBool {
		next.part, next.refusesAll = map[string]any{}, !allows
	} else {
		next.part, _ = part.(map[string]any)
	}
	return next
}

// check returns whether the schema allows a path.
func (s schema) check(path []targetpath.Segment) verdict {
	switch {
	case s.refusesAll:
		return forbidden
	case s.part == nil || s.depth > maxReferences:
		return unspecified
	case len(path) == 0:
		return allowed
	}
	result := s.checkProperties(path)
	for _, alternative := range s.alternatives() {
		switch alternative.check(path) {
		case allowed:
			return allowed
		case forbidden:
			result = forbidden
		case unspecified:
		}
	}
	return result
}

func (s schema) checkProperties(path []targetpath.Segment) verdict {
	next, specified := s.step(path[0])
	switch {
	case next != nil:
		return next.check(path[1:])
	case specified:
		return forbidden
	default:
		return unspecified
	}
}

// step returns the schema of one segment. Without one, specified reports whether
// the segment is forbidden or just not mentioned.
func (s schema) step(segment targetpath.Segment) (next *schema, specified bool) {
	if segment.IsIndex() {
		return s.item(segment.Index)
	}
	properties, _ := s.part["properties"].(map[string]any)
	if property, found := properties[segment.Name]; found {
		return new(s.child(property)), true
	}
	patterns, _ := s.part["patternProperties"].(map[string]any)
	for pattern, property := range patterns {
		if matches, err := regexp.MatchString(pattern, segment.Name); err == nil && matches {
			return new(s.child(property)), true
		}
	}
	additional, set := s.part["additionalProperties"]
	switch {
	case set && additional == false:
		return nil, true
	case set:
		return new(s.child(additional)), true
	case s.part["type"] == "object" && len(properties)+len(patterns) == 0 && len(s.alternatives()) == 0:
		// An object without further keywords allows any name.
		return new(s.child(true)), true
	default:
		return nil, false
	}
}

func (s schema) item(index int) (next *schema, specified bool) {
	for _, keyword := range []string{"prefixItems", "items"} {
		if list, isList := s.part[keyword].([]any); isList && index < len(list) {
			return new(s.child(list[index])), true
		}
	}
	if items, set := s.part["items"]; set {
		if _, isList := items.([]any); !isList {
			return new(s.child(items)), true
		}
	}
	if s.part["type"] == "array" {
		return new(s.child(true)), true
	}
	return nil, false
}

// alternatives returns the other schemas that apply to the same value.
func (s schema) alternatives() []schema {
	var all []schema
	if reference, isString := s.part["$ref"].(string); isString {
		next := s.child(s.resolve(reference))
		next.depth++
		all = append(all, next)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := s.part[keyword].([]any)
		for _, part := range parts {
			all = append(all, s.child(part))
		}
	}
	for _, keyword := range []string{"then", "else"} {
		if part, set := s.part[keyword]; set {
			all = append(all, s.child(part))
		}
	}
	return all
}

// resolve returns the part that a reference inside the schema points to.
func (s schema) resolve(reference string) any {
	pointer, local := strings.CutPrefix(reference, "#")
	if !local {
		return nil
	}
	var part any = s.root
	for name := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
		if name == "" {
			continue
		}
		object, _ := part.(map[string]any)
		part = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return part
}

// at returns the part of the schema at a path, or an empty one.
func (s schema) at(path []targetpath.Segment) schema {
	if len(path) == 0 {
		return s
	}
	if s.depth <= maxReferences {
		if next, _ := s.step(path[0]); next != nil {
			return next.at(path[1:])
		}
		for _, alternative := range s.alternatives() {
			if found := alternative.at(path); found.part != nil {
				return found
			}
		}
	}
	return schema{root: s.root}
}

// properties returns the names of all properties that the schema defines.
func (s schema) properties() map[string]bool {
	names := map[string]bool{}
	properties, _ := s.part["properties"].(map[string]any)
	for name := range properties {
		names[name] = true
	}
	if s.depth <= maxReferences {
		for _, alternative := range s.alternatives() {
			for name := range alternative.properties() {
				names[name] = true
			}
		}
	}
	return names
}

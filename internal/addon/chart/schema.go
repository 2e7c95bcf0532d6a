package chart

import (
	"regexp"
	"strings"

	"github.com/appthrust/capt/internal/addon/targetpath"
)

// verdict is what a schema says of a path.
type verdict int

const (
	// unsaid is a path that the schema neither names nor refuses.
	unsaid verdict = iota
	// yes is a path that the schema names.
	yes
	// no is a path that the schema refuses.
	no
)

// schema is a JSON schema, or a part of one. It knows the whole for $ref.
type schema struct {
	root, part map[string]any
	// refuses is set for the schema false.
	refuses bool
	// depth counts the references that were followed.
	depth int
}

// maxReferences bounds how far $ref is followed.
const maxReferences = 32

func schemaOf(root map[string]any) schema { return schema{root: root, part: root} }

// inside is a part of the schema.
func (s schema) inside(part any) schema {
	next := schema{root: s.root, depth: s.depth}
	if allows, isBool := part.(bool); isBool {
		next.part, next.refuses = map[string]any{}, !allows
	} else {
		next.part, _ = part.(map[string]any)
	}
	return next
}

// allows tells what the schema says of a path.
func (s schema) allows(path []targetpath.Segment) verdict {
	switch {
	case s.refuses:
		return no
	case s.part == nil || s.depth > maxReferences:
		return unsaid
	case len(path) == 0:
		return yes
	}
	result := s.allowsHere(path)
	for _, alternative := range s.alternatives() {
		switch alternative.allows(path) {
		case yes:
			return yes
		case no:
			result = max(result, no)
		case unsaid:
		}
	}
	return result
}

func (s schema) allowsHere(path []targetpath.Segment) verdict {
	next, said := s.step(path[0])
	switch {
	case next != nil:
		return next.allows(path[1:])
	case said:
		return no
	default:
		return unsaid
	}
}

// step follows one segment. Without a next schema, said tells whether the
// segment is refused or just not spoken of.
func (s schema) step(segment targetpath.Segment) (next *schema, said bool) {
	if segment.IsIndex() {
		return s.item(segment.Index)
	}
	properties, _ := s.part["properties"].(map[string]any)
	if property, found := properties[segment.Name]; found {
		return new(s.inside(property)), true
	}
	patterns, _ := s.part["patternProperties"].(map[string]any)
	for pattern, property := range patterns {
		if matches, err := regexp.MatchString(pattern, segment.Name); err == nil && matches {
			return new(s.inside(property)), true
		}
	}
	additional, set := s.part["additionalProperties"]
	switch {
	case set && additional == false:
		return nil, true
	case set:
		return new(s.inside(additional)), true
	case s.part["type"] == "object" && len(properties)+len(patterns) == 0 && len(s.alternatives()) == 0:
		// An object of which nothing else is said takes any name.
		return new(s.inside(true)), true
	default:
		return nil, false
	}
}

func (s schema) item(index int) (next *schema, said bool) {
	for _, keyword := range []string{"prefixItems", "items"} {
		if list, isList := s.part[keyword].([]any); isList && index < len(list) {
			return new(s.inside(list[index])), true
		}
	}
	if items, set := s.part["items"]; set {
		if _, isList := items.([]any); !isList {
			return new(s.inside(items)), true
		}
	}
	if s.part["type"] == "array" {
		return new(s.inside(true)), true
	}
	return nil, false
}

// alternatives are the schemas that speak of the same value.
func (s schema) alternatives() []schema {
	var all []schema
	if reference, isText := s.part["$ref"].(string); isText {
		next := s.inside(s.resolve(reference))
		next.depth++
		all = append(all, next)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := s.part[keyword].([]any)
		for _, part := range parts {
			all = append(all, s.inside(part))
		}
	}
	for _, keyword := range []string{"then", "else"} {
		if part, set := s.part[keyword]; set {
			all = append(all, s.inside(part))
		}
	}
	return all
}

// resolve follows a reference inside the same schema.
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
		inside, _ := part.(map[string]any)
		part = inside[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return part
}

// at is the part of the schema at a path; an empty one if it says nothing.
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

// properties are the names that the schema speaks of.
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

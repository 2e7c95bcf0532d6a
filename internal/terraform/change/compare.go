package change

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
)

// value is a JSON value whose numbers keep their text.
type value struct{ content any }

// UnmarshalJSON decodes any value.
func (v *value) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(&v.content)
}

// Compare returns the differences between two JSON values without sensitive parts.
func Compare(before, after json.RawMessage) ([]Attribute, error) {
	var old, changed value
	if err := old.UnmarshalJSON(before); err != nil {
		return nil, fmt.Errorf("parsing the old value: %w", err)
	}
	if err := changed.UnmarshalJSON(after); err != nil {
		return nil, fmt.Errorf("parsing the new value: %w", err)
	}
	c := comparison{redact: func(text string) string { return text }}
	c.compare(nil, pair{before: old.content, after: changed.content})
	return c.found, nil
}

// pair is a value before and after a change, and what is known about both. The marks
// are true, or have the structure of the value with true where they apply.
type pair struct {
	before, after                            any
	unknown, beforeSensitive, afterSensitive any
}

// comparison collects the differences of two values.
type comparison struct {
	redact   func(string) string
	replaces []Path
	found    []Attribute
}

// compare adds the differences of the values at a path. A null value counts as
// absent, as it does in the configuration.
func (c *comparison) compare(path Path, p pair) {
	switch {
	case p.beforeSensitive == true || p.afterSensitive == true:
		if p.unknown == true || containsTrue(p.unknown) || !reflect.DeepEqual(p.before, p.after) {
			c.add(path, Attribute{Action: p.action(), Sensitive: true})
		}
	case p.unknown == true:
		c.add(path, Attribute{Action: p.action(), Before: c.encode(p.before, p.beforeSensitive), Unknown: true})
	case c.compareMaps(path, p), c.compareLists(path, p):
	case !reflect.DeepEqual(p.before, p.after):
		c.add(path, Attribute{Action: p.action(), Before: c.encode(p.before, p.beforeSensitive), After: c.encode(p.after, p.afterSensitive)})
	}
}

// action returns how the value changes.
func (p pair) action() terraform.Action {
	isAfter := p.after != nil || p.unknown == true || containsTrue(p.unknown)
	switch {
	case p.before == nil && isAfter:
		return terraform.ActionCreate
	case p.before != nil && !isAfter:
		return terraform.ActionDelete
	default:
		return terraform.ActionUpdate
	}
}

func (c *comparison) add(path Path, attribute Attribute) {
	attribute.Path = make(Path, len(path))
	for i, step := range path {
		step.Key = c.redact(step.Key)
		attribute.Path[i] = step
	}
	attribute.Replaces = slices.ContainsFunc(c.replaces, func(replaces Path) bool {
		return path.hasPrefix(replaces) || replaces.hasPrefix(path)
	})
	c.found = append(c.found, attribute)
}

// compareMaps compares two objects, or one with an absent value. It returns false if
// the values are something else.
func (c *comparison) compareMaps(path Path, p pair) bool {
	before, isBefore := p.before.(map[string]any)
	after, isAfter := p.after.(map[string]any)
	unknown, _ := p.unknown.(map[string]any)
	if !isBefore && p.before != nil || !isAfter && p.after != nil || len(before)+len(after)+len(unknown) == 0 {
		return false
	}
	keys := map[string]bool{}
	for _, side := range []map[string]any{before, after, unknown} {
		for key := range side {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		c.compare(append(path, Step{Key: key}), pair{
			before: before[key], after: after[key], unknown: member(p.unknown, key),
			beforeSensitive: member(p.beforeSensitive, key), afterSensitive: member(p.afterSensitive, key),
		})
	}
	return true
}

// compareLists compares two lists, or one with an absent value. It returns false if
// the values are something else. Elements are aligned, because the values of sets and
// lists change places.
func (c *comparison) compareLists(path Path, p pair) bool {
	before, isBefore := p.before.([]any)
	after, isAfter := p.after.([]any)
	if !isBefore && p.before != nil || !isAfter && p.after != nil || len(before)+len(after) == 0 {
		return false
	}
	for _, m := range align(before, after, p) {
		element := pair{}
		step := Step{IsIndex: true, Index: m.before, Removed: true}
		if m.before >= 0 {
			element.before, element.beforeSensitive = before[m.before], at(p.beforeSensitive, m.before)
		}
		if m.after >= 0 {
			step = Step{IsIndex: true, Index: m.after, Added: m.before < 0}
			element.after, element.afterSensitive, element.unknown = after[m.after], at(p.afterSensitive, m.after), at(p.unknown, m.after)
		}
		c.compare(append(path, step), element)
	}
	return true
}

// encode returns a value without its sensitive parts, shortened if it is large.
func (c *comparison) encode(content, sensitive any) json.RawMessage {
	if content == nil {
		return nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c.masked(content, sensitive)); err != nil {
		return json.RawMessage(`"(invalid value)"`)
	}
	if out.Len() > maxValue {
		return json.RawMessage(fmt.Sprintf(`"(%d bytes)"`, out.Len()))
	}
	return bytes.TrimSpace(out.Bytes())
}

// masked returns a value whose sensitive parts are replaced.
func (c *comparison) masked(content, sensitive any) any {
	if sensitive == true {
		return terraform.Mask
	}
	switch content := content.(type) {
	case map[string]any:
		masked := make(map[string]any, len(content))
		for key, element := range content {
			masked[c.redact(key)] = c.masked(element, member(sensitive, key))
		}
		return masked
	case []any:
		masked := make([]any, len(content))
		for i, element := range content {
			masked[i] = c.masked(element, at(sensitive, i))
		}
		return masked
	case string:
		return c.redact(content)
	case json.Number:
		if text := c.redact(content.String()); text != content.String() {
			return text
		}
		return content
	default:
		return content
	}
}

// member returns the mark of a member of an object.
func member(mark any, key string) any {
	if members, ok := mark.(map[string]any); ok {
		return members[key]
	}
	return mark == true
}

// at returns the mark of an element of a list.
func at(mark any, i int) any {
	if elements, ok := mark.([]any); ok && i < len(elements) {
		return elements[i]
	}
	return mark == true
}

// containsTrue reports whether a mark applies anywhere.
func containsTrue(mark any) bool {
	switch mark := mark.(type) {
	case map[string]any:
		for _, element := range mark {
			if containsTrue(element) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(mark, containsTrue)
	}
	return mark == true
}

// Package change describes what a plan changes in each resource, attribute by
// attribute. It reads the output of the tool's show command as a stream, and masks
// sensitive values before anything is stored.
package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Limits of what is stored of a plan, and shown as one object of the API server.
const (
	// MaxStored is the size of the entries, in bytes.
	MaxStored = 900 << 10
	// MaxEntries is the number of entries.
	MaxEntries = 10_000
)

// Entry is one change of a plan, as it is stored: a JSON document per line. Exactly one
// field is set.
type Entry struct {
	// Resource is a change that the plan makes to a resource.
	Resource *Resource `json:"resource,omitempty"`
	// Drift is a difference between a resource and the state, found by the plan.
	Drift *Resource `json:"drift,omitempty"`
	// Output is a change of an output of the root module.
	Output *Output `json:"output,omitempty"`
	// Omitted is the number of changes that are not stored, because the plan is too
	// large. It is the last entry.
	Omitted int `json:"omitted,omitempty"`
}

// Resource is the change of a resource.
type Resource struct {
	Address         string `json:"address"`
	PreviousAddress string `json:"previousAddress,omitempty"`
	Mode            string `json:"mode,omitempty"`
	Type            string `json:"type,omitempty"`
	Name            string `json:"name,omitempty"`
	// Deposed is the key of an object that was replaced, but not destroyed yet.
	Deposed string           `json:"deposed,omitempty"`
	Action  terraform.Action `json:"action"`
	// CreateFirst is set if the new resource is created before the old one is
	// destroyed.
	CreateFirst bool   `json:"createFirst,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// ImportID is the ID of a resource that is imported.
	ImportID   string      `json:"importID,omitempty"`
	Attributes []Attribute `json:"attributes,omitempty"`
	// Unchanged is the number of top-level attributes that stay as they are.
	Unchanged int `json:"unchanged,omitempty"`
	// Omitted is the number of changed attributes that are not stored.
	Omitted int `json:"omitted,omitempty"`
}

// Output is the change of an output of the root module.
type Output struct {
	Name       string           `json:"name"`
	Action     terraform.Action `json:"action"`
	Attributes []Attribute      `json:"attributes,omitempty"`
	// Omitted is the number of changed attributes that are not stored.
	Omitted int `json:"omitted,omitempty"`
}

// Attribute is the change of a value within a resource or an output. The values of a
// sensitive attribute are absent.
type Attribute struct {
	// Path leads to the value. It is empty for an output that is a single value.
	Path   Path             `json:"path"`
	Action terraform.Action `json:"action"`
	Before json.RawMessage  `json:"before,omitempty"`
	After  json.RawMessage  `json:"after,omitempty"`
	// Unknown is set if the new value is known after apply.
	Unknown   bool `json:"unknown,omitempty"`
	Sensitive bool `json:"sensitive,omitempty"`
	// Replaces is set if this change forces the replacement of the resource.
	Replaces bool `json:"replaces,omitempty"`
}

// Hide masks all values, so that only addresses and the paths of attributes remain.
func (e *Entry) Hide() {
	hide := func(attributes []Attribute) {
		for i := range attributes {
			attributes[i].Before, attributes[i].After, attributes[i].Sensitive = nil, nil, true
		}
	}
	for _, resource := range []*Resource{e.Resource, e.Drift} {
		if resource != nil {
			hide(resource.Attributes)
			resource.ImportID = ""
		}
	}
	if e.Output != nil {
		hide(e.Output.Attributes)
	}
}

// WithoutAttributes returns the entry with the number of its attributes only.
func (e Entry) WithoutAttributes() Entry {
	without := func(r *Resource) *Resource {
		if r == nil {
			return nil
		}
		bare := *r
		bare.Attributes, bare.Omitted = nil, r.Omitted+len(r.Attributes)
		return &bare
	}
	e.Resource, e.Drift = without(e.Resource), without(e.Drift)
	if e.Output != nil {
		bare := *e.Output
		bare.Attributes, bare.Omitted = nil, bare.Omitted+len(bare.Attributes)
		e.Output = &bare
	}
	return e
}

// Path is the path of a value within a resource.
type Path []Step

// Step is an attribute name or map key, or the index of a list element.
type Step struct {
	Key   string
	Index int
	// IsIndex is set if the step is an index.
	IsIndex bool
	// Removed is set if the index is that of an element that only the old list has,
	// Added if only the new list has it.
	Removed, Added bool
}

// movedStep is the JSON form of the index of an element that only one list has.
type movedStep struct {
	Removed *int `json:"removed,omitempty"`
	Added   *int `json:"added,omitempty"`
}

// MarshalJSON returns a string, a number, or an object with the index of an element
// that was removed or added.
func (s Step) MarshalJSON() ([]byte, error) {
	switch {
	case s.Removed:
		return json.Marshal(movedStep{Removed: &s.Index})
	case s.Added:
		return json.Marshal(movedStep{Added: &s.Index})
	case s.IsIndex:
		return json.Marshal(s.Index)
	default:
		return json.Marshal(s.Key)
	}
}

// UnmarshalJSON accepts what MarshalJSON returns.
func (s *Step) UnmarshalJSON(data []byte) error {
	*s = Step{}
	if json.Unmarshal(data, &s.Key) == nil {
		return nil
	}
	s.IsIndex = true
	if json.Unmarshal(data, &s.Index) == nil {
		return nil
	}
	var moved movedStep
	if err := json.Unmarshal(data, &moved); err != nil {
		return errors.New("a step of a path must be a string or an index")
	}
	switch {
	case moved.Removed != nil:
		s.Index, s.Removed = *moved.Removed, true
	case moved.Added != nil:
		s.Index, s.Added = *moved.Added, true
	}
	return nil
}

// String returns the path in the syntax of Terraform, such as tags["Name"] or
// ingress[0].from_port.
func (p Path) String() string {
	var out strings.Builder
	for i, step := range p {
		switch {
		case step.IsIndex:
			fmt.Fprintf(&out, "[%d]", step.Index)
		case !isIdentifier(step.Key):
			out.WriteString("[" + strconv.Quote(step.Key) + "]")
		case i > 0:
			out.WriteString("." + step.Key)
		default:
			out.WriteString(step.Key)
		}
	}
	return out.String()
}

func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}

// hasPrefix reports whether the path is prefix or lies within it.
func (p Path) hasPrefix(prefix Path) bool {
	if len(prefix) > len(p) {
		return false
	}
	for i, step := range prefix {
		// Paths of the tool do not distinguish elements that were removed or added.
		if p[i].Key != step.Key || p[i].Index != step.Index || p[i].IsIndex != step.IsIndex {
			return false
		}
	}
	return true
}

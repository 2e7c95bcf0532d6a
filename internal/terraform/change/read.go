package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/appthrust/capt/internal/terraform"
)

const (
	// maxAttributes limits the attributes of a resource, maxValue the bytes of a value.
	maxAttributes = 2000
	maxValue      = 32 << 10
)

// plannedResource is a resource in the output of the tool's show command.
type plannedResource struct {
	Address         string        `json:"address"`
	PreviousAddress string        `json:"previous_address"`
	Deposed         string        `json:"deposed"`
	Module          string        `json:"module_address"`
	Mode            string        `json:"mode"`
	Type            string        `json:"type"`
	Name            string        `json:"name"`
	Provider        string        `json:"provider_name"`
	Reason          string        `json:"action_reason"`
	Change          plannedChange `json:"change"`
}

type plannedChange struct {
	Actions         []string `json:"actions"`
	Before          value    `json:"before"`
	After           value    `json:"after"`
	AfterUnknown    value    `json:"after_unknown"`
	BeforeSensitive value    `json:"before_sensitive"`
	AfterSensitive  value    `json:"after_sensitive"`
	ReplacePaths    []Path   `json:"replace_paths"`
	Importing       *struct {
		ID string `json:"id"`
	} `json:"importing"`
}

// Read reads a plan from the output of "show -json" and passes its changes to emit in
// the order of the output. It holds one resource in memory at a time. Each text is
// passed through redact, which masks secrets that the tool does not know.
func Read(plan io.Reader, redact func(string) string, emit func(Entry) error) error {
	r := &reader{decoder: json.NewDecoder(plan), redact: redact}
	err := r.visit(func(planned *plannedResource, drifted bool) error {
		var entry Entry
		if drifted {
			r.miss(planned)
			entry.Drift = r.resource(planned)
		} else {
			r.find(planned)
			entry.Resource = r.resource(planned)
		}
		if entry.Drift == nil && entry.Resource == nil {
			return nil
		}
		return emit(entry)
	}, func(name string, change *plannedChange) error {
		action := actionOf(change.Actions)
		if action == "" {
			return nil
		}
		found := r.compare(change)
		omitted := max(0, len(found)-maxAttributes)
		return emit(Entry{Output: &Output{Name: name, Action: action, Attributes: found[:len(found)-omitted], Omitted: omitted}})
	}, nil)
	if err != nil {
		return fmt.Errorf("reading the changes of the plan: %w", err)
	}
	return nil
}

type reader struct {
	decoder *json.Decoder
	redact  func(string) string
	// missing are the resources that the refresh did not find, without their values. The
	// tool lists them before the changes.
	missing map[string]*plannedResource
}

// visit passes resources and the changes of outputs to functions, in the order of the plan. Other
// reads or skips the value of another member: if nil, all are skipped.
func (r *reader) visit(resource func(planned *plannedResource, drifted bool) error, output func(name string, change *plannedChange) error, other func(key string) error) error {
	return r.members(func(key string) error {
		switch key {
		case "resource_changes", "resource_drift":
			return r.elements(func() error {
				var planned plannedResource
				if err := r.decode(&planned); err != nil {
					return err
				}
				return resource(&planned, key == "resource_drift")
			})
		case "output_changes":
			return r.members(func(name string) error {
				var change plannedChange
				if err := r.decode(&change); err != nil {
					return err
				}
				return output(name, &change)
			})
		}
		if other == nil {
			return r.skip()
		}
		return other(key)
	})
}

// members calls read for each member of an object. It must consume the value.
func (r *reader) members(read func(key string) error) error {
	if err := r.expect(json.Delim('{')); err != nil {
		return err
	}
	for r.decoder.More() {
		key, err := r.token()
		if err != nil {
			return err
		}
		if err := read(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	return r.expect(json.Delim('}'))
}

// elements calls read for each element of a list. It must consume the value.
func (r *reader) elements(read func() error) error {
	if err := r.expect(json.Delim('[')); err != nil {
		return err
	}
	for r.decoder.More() {
		if err := read(); err != nil {
			return err
		}
	}
	return r.expect(json.Delim(']'))
}

// errSyntax hides the text of a syntax error, which may quote a value.
var errSyntax = errors.New("the output of show is not a plan")

func (r *reader) decode(into any) error {
	if r.decoder.Decode(into) != nil {
		return errSyntax
	}
	return nil
}

func (r *reader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	if err != nil {
		return nil, errSyntax
	}
	return token, nil
}

func (r *reader) expect(want json.Delim) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	if token != want {
		return errSyntax
	}
	return nil
}

// skip skips the next value without holding it in memory.
func (r *reader) skip() error {
	for depth := 0; ; {
		token, err := r.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// miss remembers a resource of the drift that the refresh did not find.
func (r *reader) miss(drifted *plannedResource) {
	if drifted.action() != terraform.ActionDelete || drifted.Deposed != "" {
		return
	}
	if r.missing == nil {
		r.missing = map[string]*plannedResource{}
	}
	missing := *drifted
	missing.Reason, missing.Change = terraform.ReasonNotFound, plannedChange{Actions: []string{string(terraform.ActionForget)}}
	r.missing[missing.Address] = &missing
}

// find sets the reason of the change that creates a missing resource again.
func (r *reader) find(planned *plannedResource) {
	if planned.action() == terraform.ActionCreate && r.missing[planned.Address] != nil {
		planned.Reason = terraform.ReasonNotFound
		delete(r.missing, planned.Address)
	}
}

// resource returns the change of a resource, or nil if nothing changes.
func (r *reader) resource(planned *plannedResource) *Resource {
	change := &planned.Change
	resource := &Resource{
		Address: r.redact(planned.Address), Mode: planned.Mode, Type: planned.Type, Name: planned.Name, Reason: planned.Reason, Deposed: planned.Deposed,
		CreateFirst: slices.Equal(change.Actions, []string{"create", "delete"}),
	}
	if planned.PreviousAddress != planned.Address {
		resource.PreviousAddress = r.redact(planned.PreviousAddress)
	}
	if change.Importing != nil {
		resource.ImportID = r.redact(change.Importing.ID)
	}
	if resource.Action = planned.action(); resource.Action == "" {
		return nil
	}
	if resource.Action == terraform.ActionForget {
		return resource
	}
	found := r.compare(change)
	resource.Unchanged = unchanged(change, found)
	resource.Omitted = max(0, len(found)-maxAttributes)
	resource.Attributes = found[:len(found)-resource.Omitted]
	return resource
}

// action returns what the plan does to the resource, or an empty string if nothing
// changes.
func (p *plannedResource) action() terraform.Action {
	action := actionOf(p.Change.Actions)
	switch {
	case action != "":
		return action
	case p.Change.Importing != nil:
		return terraform.ActionImport
	case p.PreviousAddress != "" && p.PreviousAddress != p.Address:
		return terraform.ActionMove
	default:
		return ""
	}
}

// compare returns the changed values of a resource or an output.
func (r *reader) compare(change *plannedChange) []Attribute {
	c := comparison{redact: r.redact, replaces: change.ReplacePaths}
	c.compare(nil, pair{
		before: change.Before.content, after: change.After.content, unknown: change.AfterUnknown.content,
		beforeSensitive: change.BeforeSensitive.content, afterSensitive: change.AfterSensitive.content,
	})
	return c.found
}

// unchanged returns the number of attributes that have a value and stay as they are.
func unchanged(change *plannedChange, found []Attribute) int {
	before, _ := change.Before.content.(map[string]any)
	changed := map[string]bool{}
	for _, attribute := range found {
		if len(attribute.Path) > 0 {
			changed[attribute.Path[0].Key] = true
		}
	}
	n := 0
	for name, content := range before {
		if content != nil && !changed[name] {
			n++
		}
	}
	return n
}

// actionOf returns the action of a change, or an empty string if nothing changes.
func actionOf(actions []string) terraform.Action {
	switch {
	case slices.Contains(actions, "create") && slices.Contains(actions, "delete"),
		slices.Contains(actions, "create") && slices.Contains(actions, "forget"):
		return terraform.ActionReplace
	case len(actions) != 1 || actions[0] == "no-op":
		return ""
	case actions[0] == "remove":
		return terraform.ActionForget
	default:
		return terraform.Action(actions[0])
	}
}

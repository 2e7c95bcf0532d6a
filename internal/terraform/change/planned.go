package change

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Planned is one change of a plan with all values that may be shown, for policies.
// Exactly one field is set.
type Planned struct {
	Resource *PlannedResource
	Output   *PlannedOutput
}

// PlannedResource is the change of a resource.
type PlannedResource struct {
	Address, PreviousAddress, Module, Mode, Type, Name, Provider, Reason string
	// Action is the action as CAPT names it, Actions are those of the tool.
	Action  terraform.Action
	Actions []string
	PlannedValues
	// ReplacePaths are the attributes that force a replacement.
	ReplacePaths []string
}

// PlannedOutput is the change of an output of the root module.
type PlannedOutput struct {
	Name   string
	Action terraform.Action
	PlannedValues
}

// PlannedValues are the values of a resource or an output before and after a change, as
// maps, lists, strings, numbers, booleans and nil. Sensitive values and values that are
// known after apply are absent from maps, and nil in lists.
type PlannedValues struct {
	Before, After any
	// ChangedPaths, UnknownPaths and SensitivePaths are the paths of the values that
	// change, that are known after apply, and that are sensitive before or after it.
	ChangedPaths, UnknownPaths, SensitivePaths []string
}

// ReadPlanned reads a plan from the output of "show -json" and passes its changes to
// emit. Unlike those of Read, their names and values are not masked: a user who can make a
// text secret could otherwise hide it from the rules of a policy. Mask what is shown.
//
// The changes of a plan that only refreshes the state are the differences between the resources
// and the state.
func ReadPlanned(plan io.Reader, refreshes bool, emit func(Planned) error) error {
	unmasked := func(text string) string { return text }
	r := &plannedReader{reader: reader{decoder: json.NewDecoder(plan), redact: unmasked}, emit: emit}
	err := r.visit(func(planned *plannedResource, drifted bool) error {
		if drifted && !refreshes {
			r.miss(planned)
			return nil
		}
		r.find(planned)
		return r.resource(planned)
	}, func(name string, change *plannedChange) error {
		action := actionOf(change.Actions)
		if action == "" {
			return nil
		}
		return emit(Planned{Output: &PlannedOutput{Name: name, Action: action, PlannedValues: r.values(change)}})
	}, nil)
	// The plan does not create them again.
	for _, address := range slices.Sorted(maps.Keys(r.missing)) {
		if err == nil {
			err = r.resource(r.missing[address])
		}
	}
	if err != nil {
		return fmt.Errorf("reading the changes of the plan: %w", err)
	}
	return nil
}

type plannedReader struct {
	reader
	emit func(Planned) error
}

func (r *plannedReader) resource(planned *plannedResource) error {
	action := planned.action()
	if action == "" {
		return nil
	}
	resource := &PlannedResource{
		Address: planned.Address, Module: planned.Module, Mode: planned.Mode, Type: planned.Type, Name: planned.Name,
		Provider: planned.Provider, Reason: planned.Reason, Action: action, Actions: planned.Change.Actions,
		PlannedValues: r.values(&planned.Change),
	}
	if planned.PreviousAddress != planned.Address {
		resource.PreviousAddress = planned.PreviousAddress
	}
	for _, path := range planned.Change.ReplacePaths {
		resource.ReplacePaths = append(resource.ReplacePaths, path.String())
	}
	return r.emit(Planned{Resource: resource})
}

// values returns the values of a change that are neither sensitive nor unknown.
func (r *plannedReader) values(change *plannedChange) PlannedValues {
	var view view
	values := PlannedValues{}
	values.Before, _ = view.show(nil, change.Before.content, change.BeforeSensitive.content, nil)
	values.After, _ = view.show(nil, change.After.content, change.AfterSensitive.content, change.AfterUnknown.content)
	values.UnknownPaths, values.SensitivePaths = view.unknown, view.sensitive
	for _, attribute := range r.compare(change) {
		values.ChangedPaths = append(values.ChangedPaths, attribute.Path.String())
	}
	return values
}

// view collects the paths of the values that it does not show.
type view struct{ unknown, sensitive []string }

// show returns the parts of a value that may be shown. It returns false if the whole
// value is hidden.
func (v *view) show(path Path, content, sensitive, unknown any) (any, bool) {
	switch {
	case sensitive == true:
		if text := path.String(); !slices.Contains(v.sensitive, text) {
			v.sensitive = append(v.sensitive, text)
		}
		return nil, false
	case unknown == true:
		v.unknown = append(v.unknown, path.String())
		return nil, false
	}
	switch content := content.(type) {
	case map[string]any:
		return v.showMap(path, content, sensitive, unknown), true
	case []any:
		shown := make([]any, len(content))
		for i, element := range content {
			shown[i], _ = v.show(append(path, Step{IsIndex: true, Index: i}), element, at(sensitive, i), at(unknown, i))
		}
		return shown, true
	case json.Number:
		return number(content), true
	case nil:
		if members, ok := unknown.(map[string]any); ok {
			v.showMap(path, nil, sensitive, members)
		}
		return nil, true
	default:
		return content, true
	}
}

// showMap returns the members of a map that are not hidden. Unknown members are only in
// the marks.
func (v *view) showMap(path Path, content map[string]any, sensitive, unknown any) map[string]any {
	keys := maps.Clone(content)
	if members, ok := unknown.(map[string]any); ok {
		if keys == nil {
			keys = map[string]any{}
		}
		for key := range members {
			keys[key] = nil
		}
	}
	shown := make(map[string]any, len(content))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, visible := v.show(append(path, Step{Key: key}), content[key], member(sensitive, key), member(unknown, key))
		if _, exists := content[key]; exists && visible {
			shown[key] = value
		}
	}
	return shown
}

// number returns an integer or a floating-point number.
func number(content json.Number) any {
	text := content.String()
	if !strings.ContainsAny(text, ".eE") {
		if integer, err := strconv.ParseInt(text, 10, 64); err == nil {
			return integer
		}
	}
	value, err := content.Float64()
	if err != nil {
		return text
	}
	return value
}

package text

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Output is the value of the flag -o: for people when it is empty, else json or
// yaml. It is a pflag.Value.
type Output string

// The forms for programs.
const (
	JSON Output = "json"
	YAML Output = "yaml"
)

// String returns the value.
func (o *Output) String() string { return string(*o) }

// Type names what the flag takes.
func (o *Output) Type() string { return "json|yaml" }

// Set takes a value.
func (o *Output) Set(value string) error {
	switch Output(value) {
	case JSON, YAML:
		*o = Output(value)
		return nil
	default:
		return fmt.Errorf("write json or yaml, not %q", value)
	}
}

// ForPeople tells whether nobody asked for a form for programs.
func (o *Output) ForPeople() bool { return *o == "" }

// List is a list that is written as one although it is empty.
func List[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// Print writes a value in the form that was asked for.
func (o *Output) Print(w io.Writer, value any) error {
	encode := yaml.Marshal
	if *o == JSON {
		encode = func(v any) ([]byte, error) {
			data, err := json.MarshalIndent(v, "", "  ")
			return append(data, '\n'), err
		}
	}
	data, err := encode(value)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}

package text

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Output is the value of the --output flag: json, yaml, or empty or another format for
// human-readable text.
type Output string

// The structured output formats.
const (
	JSON Output = "json"
	YAML Output = "yaml"
)

// Structured reports whether JSON or YAML was requested.
func (o *Output) Structured() bool { return *o == JSON || *o == YAML }

// NonNil returns items, or an empty list for nil: JSON then has [] instead of
// null.
func NonNil[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// Print writes a value as JSON if that was requested, else as YAML.
func (o *Output) Print(w io.Writer, value any) error {
	if *o == JSON {
		return PrintJSON(w, value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	if _, err := Raw(w).Write(data); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// PrintJSON writes a value as indented JSON.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(Raw(w))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Count returns a number with a noun in the singular or plural: "1 resource", "2
// resources".
func Count[N ~int | ~int32 | ~int64](number N, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

package aws

import (
	"fmt"
	"io"
)

// hidden is what is seen of a secret.
const hidden = "[hidden]"

// Secret is a string that does not show itself: whichever way it is formatted,
// encoded or logged, only a mask appears. The value is behind a pointer because
// fmt reads unexported fields of other structs without asking this type.
type Secret struct {
	value *string
}

// NewSecret hides a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the value. What it returns is no longer protected.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no value.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns the mask, or nothing where there is no value.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// GoString returns the mask.
func (s Secret) GoString() string { return s.String() }

// Format writes the mask for every verb.
func (s Secret) Format(state fmt.State, _ rune) { writeString(state, s.String()) }

// MarshalText has JSON, YAML and structured logs show the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// writeString ignores the error as fmt does: a writer that fails tells its owner.
func writeString(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

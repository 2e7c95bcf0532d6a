package aws

import (
	"fmt"
	"io"
)

// hidden is printed in place of a secret.
const hidden = "[hidden]"

// Secret is a string that is masked however it is formatted, encoded or logged. The
// value is behind a pointer because fmt reads unexported fields of other structs
// without calling the methods of this type.
type Secret struct {
	value *string
}

// NewSecret returns a Secret with a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the unmasked value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns the mask, or an empty string if the value is empty.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// GoString returns the same as String.
func (s Secret) GoString() string { return s.String() }

// Format writes the mask for every verb.
func (s Secret) Format(state fmt.State, _ rune) { writeString(state, s.String()) }

// MarshalText returns the mask, for JSON, YAML and structured logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// writeString ignores the error, as fmt does: the owner of the writer sees it.
func writeString(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

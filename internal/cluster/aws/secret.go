package aws

// Secret is a string that is not printed, encoded or logged: only its pointer is, and
// String hides it.
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

// Reveal returns the value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// String hides the value.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "[hidden]"
}

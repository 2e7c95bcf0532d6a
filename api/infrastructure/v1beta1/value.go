package v1beta1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Value is any JSON value: a string, a number, a boolean, a list, an object or
// null. The JSON is preserved, so that a list is passed to Terraform as a list.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type Value struct {
	// Raw is the JSON text.
	Raw json.RawMessage `json:"-"`
}

// StringValue returns a Value that is a string.
func StringValue(s string) Value {
	raw, err := json.Marshal(s)
	if err != nil { // A string always marshals.
		panic(fmt.Sprintf("marshalling a string: %v", err))
	}
	return Value{Raw: raw}
}

// NewValue returns the Value of anything that marshals to JSON.
func NewValue(v any) (Value, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return Value{}, fmt.Errorf("marshalling a value: %w", err)
	}
	return Value{Raw: raw}, nil
}

// String returns the text of a string value, and the JSON text of any other.
func (v Value) String() string {
	var s string
	if err := json.Unmarshal(v.Raw, &s); err == nil {
		return s
	}
	return string(v.Raw)
}

// IsZero reports whether the value is unset. JSON null is not unset.
func (v Value) IsZero() bool { return len(v.Raw) == 0 }

// MarshalJSON writes the value as it was read; an unset value is null.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v.Raw) == 0 {
		return []byte("null"), nil
	}
	return v.Raw, nil
}

// UnmarshalJSON keeps the value's text.
func (v *Value) UnmarshalJSON(b []byte) error {
	v.Raw = bytes.Clone(b)
	return nil
}

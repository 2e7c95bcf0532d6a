package webhooks

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid is an error that quotes no more of the value than a person wants to
// read.
func invalid(path *field.Path, value, detail string) *field.Error {
	const most = 80
	line, _, cut := strings.Cut(strings.TrimSpace(value), "\n")
	if runes := []rune(line); len(runes) > most {
		line, cut = string(runes[:most]), true
	}
	if cut {
		line += "…"
	}
	return field.Invalid(path, line, detail)
}

// duplicate is an error that says what to do about an entry that is there twice.
func duplicate(path *field.Path, value string) *field.Error {
	err := field.Duplicate(path, value)
	err.Detail = "remove one of the two entries"
	return err
}

package webhooks

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/appthrust/capt/internal/message"
)

// maxQuoted is the number of characters of a value in an error.
const maxQuoted = 80

// invalid returns an error that quotes the start of the first line of the value.
func invalid(path *field.Path, value, detail string) *field.Error {
	line, _, more := strings.Cut(strings.TrimSpace(value), "\n")
	if more {
		line += "…"
	}
	return field.Invalid(path, message.TruncateWidth(line, maxQuoted), detail)
}

// duplicate returns the error of a list with two equal entries.
func duplicate(path *field.Path, value string) *field.Error {
	err := field.Duplicate(path, value)
	err.Detail = "remove one of the two entries"
	return err
}

// subtract returns the errors that are not among the known ones.
func subtract(errs, known field.ErrorList) field.ErrorList {
	seen := make(map[string]bool, len(known))
	for _, err := range known {
		seen[err.Error()] = true
	}
	var fresh field.ErrorList
	for _, err := range errs {
		if !seen[err.Error()] {
			fresh = append(fresh, err)
		}
	}
	return fresh
}

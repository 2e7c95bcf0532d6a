// Package elements counts the elements of texts, before they are decoded. A decoded element
// needs many times the memory of its text, which may be two bytes, so a limit of the size of
// a text that others write does not limit the memory that it needs.
package elements

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Error reports that a text has too many elements.
type Error struct {
	// Limit is the number of elements that the text may have.
	Limit int
}

func (e *Error) Error() string {
	return fmt.Sprintf("it has more than %d elements, the limit: shorten its lists and maps", e.Limit)
}

// JSON returns at least the number of values in JSON, except for the first one.
func JSON(text []byte) int {
	values, _ := Count(text)
	return values
}

// Count returns what JSON does, and the number of objects, whether the JSON is valid or not.
func Count(text []byte) (values, objects int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '[' || b == '{':
			// A value is the first one, or follows one of these.
			values++
			if b == '{' {
				objects++
			}
		case b == ',':
			values++
		}
	}
	return values, objects
}

// CheckJSON returns an error if JSON has too many elements.
func CheckJSON(text []byte, limit int) error {
	if JSON(text) >= limit {
		return &Error{Limit: limit}
	}
	return nil
}

// separators begin or end the elements of YAML. Each line break of the YAML parsers is one of
// them: they know more than those of Unicode text in Go.
var separators = [][]byte{
	[]byte("\n"), []byte("\r"), []byte("\u0085"), []byte("\u2028"), []byte("\u2029"),
	[]byte(","), []byte("["), []byte("{"), []byte("- "), []byte("-\t"), []byte("? "), []byte("?\t"),
}

// YAML returns the number of elements of YAML in UTF-8. It counts what may separate elements, in
// texts too: what separates them depends on the rest of the document. A parser makes at most three
// nodes of each element, such as the map, the key and the value of "- a: 1".
func YAML(text []byte) int {
	count := 1
	for _, separator := range separators {
		count += bytes.Count(text, separator)
	}
	return count
}

// CheckYAML returns an error if YAML has too many elements, or if they cannot be counted. The
// parsers also read UTF-16, in which other bytes separate them.
func CheckYAML(text []byte, limit int) error {
	if YAML(text) > limit {
		return &Error{Limit: limit}
	}
	if !utf8.Valid(text) {
		return errors.New("it is not in UTF-8")
	}
	return nil
}

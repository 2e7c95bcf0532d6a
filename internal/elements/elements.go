// Package elements counts the elements of texts, before they are decoded. A decoded element
// needs many times the memory of its text, which may be two bytes, so a limit of the size of
// a text that others write does not limit the memory that it needs.
package elements

import (
	"bytes"
	"fmt"
	"unicode"
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

// Counter counts the elements of the JSON that is written to it. The number is at least that
// of the values in the JSON, whether it is valid or not.
type Counter struct {
	// Elements is the number of values so far, and Size that of bytes. Depth is that of lists
	// and objects which have not ended, and Commas the number of commas in the outermost one.
	Elements, Size, Depth, Commas int
	inString, escaped             bool
}

// Write implements io.Writer. It never fails.
func (c *Counter) Write(text []byte) (int, error) {
	for _, b := range text {
		switch {
		case c.escaped:
			c.escaped = false
		case c.inString && b == '\\':
			c.escaped = true
		case b == '"':
			c.inString = !c.inString
		case c.inString:
		case b == '[' || b == '{':
			// A value is the first one, or follows one of these.
			c.Elements++
			c.Depth++
		case b == ']' || b == '}':
			c.Depth--
		case b == ',':
			c.Elements++
			if c.Depth == 1 {
				c.Commas++
			}
		}
	}
	c.Size += len(text)
	return len(text), nil
}

// Check returns an error if the JSON has too many elements.
func (c *Counter) Check(limit int) error {
	if c.Elements >= limit {
		return &Error{Limit: limit}
	}
	return nil
}

// JSON returns at least the number of values in JSON, except for the first one.
func JSON(text []byte) int {
	var c Counter
	_, _ = c.Write(text)
	return c.Elements
}

// Entries returns at least the number of entries of a list or an object in valid JSON.
func Entries(text []byte) int {
	var c Counter
	_, _ = c.Write(text)
	return c.Commas + 1
}

// CheckJSON returns an error if JSON has too many elements.
func CheckJSON(text []byte, limit int) error {
	return (&Counter{Elements: JSON(text)}).Check(limit)
}

// CheckYAML returns an error if YAML has too many elements. It counts what may separate
// elements, in texts too: what separates them depends on the rest of the document.
func CheckYAML(text []byte, limit int) error {
	count := 1
	for _, separator := range []string{"\n", "\r", ",", "[", "{", "- ", "-\t", "? "} {
		if count += bytes.Count(text, []byte(separator)); count > limit {
			return &Error{Limit: limit}
		}
	}
	return nil
}

// HCL returns at least the number of tokens of HCL. Texts and comments that cannot contain
// expressions count as one.
func HCL(text []byte) int {
	count := 0
	for line := range bytes.Lines(text) {
		count += tokens(line)
	}
	return count
}

// mixed are the parts of a line of HCL which may be in a text, or in a comment of several
// lines, in another way than the line alone tells.
var mixed = [][]byte{[]byte("${"), []byte("%{"), []byte("/*"), []byte("*/")}

// tokens returns at least the number of tokens of a line of HCL.
func tokens(line []byte) int {
	isMixed := false
	for _, part := range mixed {
		isMixed = isMixed || bytes.Contains(line, part)
	}
	content := bytes.TrimLeft(line, " \t")
	if !isMixed && (bytes.HasPrefix(content, []byte("#")) || bytes.HasPrefix(content, []byte("//"))) {
		return 1
	}
	count, inWord, inString := 0, false, false
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		i += size
		switch {
		case inString && r == '\\':
			i++
		case !isMixed && r == '"':
			inString, inWord = !inString, false
			count++
		case inString:
		case r == ' ' || r == '\t' || r == '\r':
			inWord = false
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			if !inWord {
				count++
			}
			inWord = true
		default:
			count++
			inWord = false
		}
	}
	return count
}

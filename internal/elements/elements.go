// Package elements counts the elements of texts, before they are decoded. A decoded element
// needs many times the memory of its text, which may be two bytes, so a limit of the size of
// a text that others write does not limit the memory that it needs.
package elements

import (
	"bytes"
	"errors"
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
	// Elements is the number of values so far, and Size that of bytes. Objects is the number
	// of objects in lists, and Maps that of other objects. A null in a list counts as an
	// object: it becomes an empty one.
	Elements, Size, Objects, Maps int
	// Depth is that of lists and objects which have not ended.
	Depth int
	// lists has whether each of them is a list, up to maxDepth.
	lists             []bool
	inString, escaped bool
}

// maxDepth is how deeply decoders follow nested values.
const maxDepth = 10_000

// Write implements io.Writer. It never fails.
func (c *Counter) Write(text []byte) (int, error) {
	for _, b := range text {
		c.Add(b)
	}
	return len(text), nil
}

// Add counts the next byte.
func (c *Counter) Add(b byte) {
	c.Size++
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
		c.begin(b == '[')
	case b == ']' || b == '}':
		c.end()
	case b == ',':
		c.Elements++
	case b == 'n' && c.inList():
		c.Objects++
	}
}

func (c *Counter) begin(isList bool) {
	switch {
	case isList:
	case c.inList():
		c.Objects++
	default:
		c.Maps++
	}
	if c.Depth++; len(c.lists) < maxDepth {
		c.lists = append(c.lists, isList)
	}
}

func (c *Counter) end() {
	c.Depth = max(c.Depth-1, 0)
	c.lists = c.lists[:min(len(c.lists), c.Depth)]
}

// inList reports whether the next value is one of a list, or so deep that it may be.
func (c *Counter) inList() bool {
	return c.Depth > len(c.lists) || c.Depth > 0 && c.lists[c.Depth-1]
}

// Reset begins another text.
func (c *Counter) Reset() { *c = Counter{lists: c.lists[:0]} }

const (
	// ElementSize is how many bytes a decoded value needs at most, beside its text: in a large
	// map up to 76 for each key.
	ElementSize = 80
	// MapSize is how many bytes a map needs as well. One with one key has space for eight.
	MapSize = 352
)

// Memory estimates how many bytes the JSON needs when it is decoded into the types of
// Kubernetes, or into maps. A pod, whose text may be two bytes, needs more than a KiB.
func (c *Counter) Memory() int {
	return c.Size + ElementSize*c.Elements + 1536*c.Objects + MapSize*c.Maps
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

// CheckJSON returns an error if JSON has too many elements.
func CheckJSON(text []byte, limit int) error {
	return (&Counter{Elements: JSON(text)}).Check(limit)
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

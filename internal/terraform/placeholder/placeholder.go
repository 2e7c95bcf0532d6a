// Package placeholder parses and expands ${name} placeholders in names, values
// and manifests. $${ stands for a literal ${.
package placeholder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/message"
)

// longestPiece is how many characters of a malformed placeholder an error
// quotes. A missing brace can make the piece as long as its line.
const longestPiece = 40

// Part is a piece of a text: a placeholder if Name is set, literal text otherwise.
type Part struct {
	// Literal is the literal text, with $${ already replaced by ${.
	Literal string
	// Name is the name between the braces.
	Name string
	// Offset is the byte offset of the part in the text.
	Offset int
}

// SyntaxError reports a ${ that does not start a valid placeholder.
type SyntaxError struct {
	// Text is the malformed piece of the text, truncated.
	Text string
	// Offset is the byte offset of the piece in the text.
	Offset int
	// Line is the line of the piece, counted from 1.
	Line int
	// Problem describes what is wrong.
	Problem string
}

// Error returns the problem and what to write instead.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s (line %d) %s: write ${NAME}, or $${ for a literal ${", e.Text, e.Line, e.Problem)
}

// UnresolvedError reports placeholders that have no value.
type UnresolvedError struct {
	// Names are the names without a value, in order of appearance.
	Names []string
}

// Error lists every placeholder without a value.
func (e *UnresolvedError) Error() string {
	quoted := make([]string, len(e.Names))
	for i, name := range e.Names {
		quoted[i] = "${" + name + "}"
	}
	if len(quoted) == 1 {
		return quoted[0] + " has no value"
	}
	return strings.Join(quoted, ", ") + " have no value"
}

// Parse splits a text into literal text and placeholders. It returns a
// *SyntaxError for a malformed placeholder.
func Parse(text string) ([]Part, error) {
	var parts []Part
	var literal strings.Builder
	start := 0
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, Part{Literal: literal.String(), Offset: start})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			i += len("$${")
		case strings.HasPrefix(rest, "${"):
			name, err := parseName(text, i)
			if err != nil {
				return nil, err
			}
			flush()
			parts = append(parts, Part{Name: name, Offset: i})
			i += len("${") + len(name) + len("}")
			start = i
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return parts, nil
}

// Names returns the distinct names of a text's placeholders, in order of
// appearance. It returns a *SyntaxError for a malformed placeholder.
func Names(text string) ([]string, error) {
	parts, err := Parse(text)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range parts {
		if p.Name != "" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// Expand replaces every placeholder by the value that lookup returns. It returns
// a *SyntaxError for a malformed placeholder, and an *UnresolvedError if lookup
// does not find a name. Placeholders inside values are not expanded.
func Expand(text string, lookup func(name string) (string, bool)) (string, error) {
	parts, err := Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	var unresolved []string
	for _, p := range parts {
		if p.Name == "" {
			out.WriteString(p.Literal)
			continue
		}
		value, ok := lookup(p.Name)
		if !ok && !slices.Contains(unresolved, p.Name) {
			unresolved = append(unresolved, p.Name)
		}
		out.WriteString(value)
	}
	if len(unresolved) > 0 {
		return "", &UnresolvedError{Names: unresolved}
	}
	return out.String(), nil
}

// jsonPrefix begins the name of a placeholder that stands for a JSON value.
const jsonPrefix = "json:"

// JSON returns the name of a text that is ${json:NAME} as a whole. Its value is JSON,
// and replaces the text together with its quotes. Such a placeholder is only supported
// by callers of this function: Parse rejects it.
func JSON(text string) (name string, found bool) {
	name, hasPrefix := strings.CutPrefix(text, "${"+jsonPrefix)
	name, closed := strings.CutSuffix(name, "}")
	if !hasPrefix || !closed || !validName(name) {
		return "", false
	}
	return name, true
}

// parseName returns the name of the placeholder at the offset.
func parseName(text string, offset int) (string, error) {
	fail := func(piece, problem string) error {
		return &SyntaxError{
			Text: message.TruncateWidth(piece, longestPiece), Offset: offset, Line: 1 + strings.Count(text[:offset], "\n"), Problem: problem,
		}
	}
	line, _, _ := strings.Cut(text[offset:], "\n")
	piece, _, closed := strings.Cut(line, "}")
	name := piece[len("${"):]
	switch {
	case !closed:
		return "", fail(line, "has no closing brace")
	case name == "":
		return "", fail(piece+"}", "has no name")
	case strings.HasPrefix(name, jsonPrefix):
		return "", fail(piece+"}", "must be the whole string of an inline manifest or of helm.values")
	case !validName(name):
		return "", fail(piece+"}", "has an invalid name (letters, digits, '_', '-' and '.', starting with a letter or '_')")
	}
	return name, nil
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		other := c >= '0' && c <= '9' || c == '-' || c == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return name != ""
}

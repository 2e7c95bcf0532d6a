// Package placeholder parses and expands ${name} placeholders in names, values
// and manifests. $${ stands for a literal ${.
package placeholder

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/appthrust/capt/internal/message"
)

// longestPiece is how many characters of a malformed placeholder an error
// quotes. A missing brace can make the piece as long as its line.
const longestPiece = 40

// part is a piece of a text: a placeholder if name is set, literal text otherwise.
type part struct {
	// literal is the literal text, with $${ already replaced by ${.
	literal, name string
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

// TooLongError reports a text that is too long with the values of its placeholders.
type TooLongError struct {
	// Limit is the limit in bytes.
	Limit int
	// Name is the placeholder with the longest value so far.
	Name string
}

// Error returns the limit and what to shorten.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("has more than %d bytes, the limit, with the values of its placeholders: shorten the value of ${%s}", e.Limit, e.Name)
}

// scan calls visit for the literal pieces and the placeholders of a text, until it returns false.
// It returns an error for a malformed placeholder.
func scan(text string, visit func(part) bool) error {
	for i := 0; i < len(text); {
		piece, length := part{}, 0
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "$${"):
			piece.literal, length = "${", len("$${")
		case strings.HasPrefix(rest, "${"):
			name, err := parseName(text, i)
			if err != nil {
				return err
			}
			piece.name, length = name, len("${")+len(name)+len("}")
		default:
			// A dollar sign is a piece of its own unless a brace follows.
			if length = strings.IndexByte(rest[1:], '$') + 1; length == 0 {
				length = len(rest)
			}
			piece.literal = rest[:length]
		}
		if !visit(piece) {
			return nil
		}
		i += length
	}
	return nil
}

// Check returns an error for a malformed placeholder.
func Check(text string) error {
	return scan(text, func(part) bool { return true })
}

// Names returns the distinct names of a text's placeholders, in order of
// appearance. It returns an error for a malformed placeholder.
func Names(text string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	err := scan(text, func(p part) bool {
		if p.name != "" && !seen[p.name] {
			seen[p.name] = true
			names = append(names, p.name)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Expand is ExpandUpTo without a limit, for values of which the caller knows that they are short.
func Expand(text string, lookup func(name string) (string, bool)) (string, error) {
	return ExpandUpTo(text, math.MaxInt, lookup)
}

// ExpandUpTo replaces every placeholder by the value that lookup returns. Placeholders inside
// values are not expanded. It calls lookup once for each name, and builds only a text that has
// no more bytes than the limit: lookup may shorten a value that is longer than the limit to any
// text that is longer, too. A text without placeholders may have any length.
//
// It returns an error for a malformed placeholder, an *UnresolvedError if lookup does not
// find a name, and a *TooLongError if the text would be too long.
func ExpandUpTo(text string, limit int, lookup func(name string) (string, bool)) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	values := map[string]string{}
	var out strings.Builder
	var unresolved []string
	size, longest := 0, ""
	err := scan(text, func(p part) bool {
		value, known := values[p.name]
		if p.name != "" && !known {
			var found bool
			if value, found = lookup(p.name); !found {
				unresolved = append(unresolved, p.name)
			}
			values[p.name] = value
		}
		if p.name != "" && (longest == "" || len(value) > len(values[longest])) {
			longest = p.name
		}
		size += len(p.literal) + len(value)
		isTooLong := longest != "" && size > limit
		if !isTooLong {
			out.WriteString(p.literal)
			out.WriteString(value)
		}
		return len(unresolved) < maxUnresolved && !isTooLong
	})
	switch {
	case err != nil:
		return "", err
	case len(unresolved) > 0:
		return "", &UnresolvedError{Names: unresolved}
	case longest != "" && size > limit:
		return "", &TooLongError{Limit: limit, Name: longest}
	}
	return out.String(), nil
}

// maxUnresolved is how many names without a value an error lists.
const maxUnresolved = 20

// Value returns the value of a placeholder that is JSON: the text of a string, and the JSON of
// any other value. It does not decode a text that is longer than the limit in any case, and
// returns a part of it that is longer than the limit.
func Value(raw []byte, limit int) string {
	// Six bytes of a string, such as \u0041, are at least one byte of its text.
	const longest = len(`\u0041`)
	if len(raw) > limit && len(raw)-len(`""`) > longest*limit {
		return string(raw[:limit+1])
	}
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return text
	}
	return string(raw)
}

// jsonPrefix begins the name of a placeholder that stands for a JSON value.
const jsonPrefix = "json:"

// JSON returns the name of a text that is ${json:NAME} as a whole. Its value is JSON,
// and replaces the text together with its quotes. Such a placeholder is only supported
// by callers of this function: others reject it.
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
		return fmt.Errorf("%s (line %d) %s: write ${NAME}, or $${ for a literal ${",
			message.TruncateWidth(piece, longestPiece), 1+strings.Count(text[:offset], "\n"), problem)
	}
	piece, _, closed := strings.Cut(text[offset:], "}")
	line, _, more := strings.Cut(piece, "\n")
	name := piece[len("${"):]
	switch {
	case !closed || more:
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

// Package targetpath parses the paths at which add-ons set Terraform outputs in
// the values of a chart. The syntax is that of Flux and of Helm's --set: names are
// separated by dots, a dot inside a name is \., and a list item is [0].
package targetpath

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxDepth is the number of names that Helm accepts in a path.
	maxDepth = 30
	// maxIndex is the largest list index that Helm accepts.
	maxIndex = 65536
)

// Segment is one step of a path: into a map by name, or into a list by index.
type Segment struct {
	// Name is the key of a map, unescaped. It is empty for a list item.
	Name string
	// Index is the position in a list. It is unused if Name is set.
	Index int
}

// IsIndex reports whether the segment is a list item.
func (s Segment) IsIndex() bool { return s.Name == "" }

// Parse returns the segments of a path. Its error has the number of the invalid character, counted
// from 1, and says what to write instead.
func Parse(path string) ([]Segment, error) {
	p := &parser{rest: []rune(path)}
	return p.parse()
}

// Format returns segments as a path that Parse accepts.
func Format(segments []Segment) string {
	var b strings.Builder
	for i, s := range segments {
		switch {
		case s.IsIndex():
			fmt.Fprintf(&b, "[%d]", s.Index)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(strings.ReplaceAll(s.Name, ".", `\.`))
	}
	return b.String()
}

type parser struct {
	rest     []rune
	position int
}

func (p *parser) parse() ([]Segment, error) {
	if len(p.rest) == 0 {
		return nil, p.fail("the path is empty: write a path such as settings.clusterName")
	}
	var segments []Segment
	for names := 1; ; names++ {
		if names > maxDepth {
			return nil, p.fail("the path has more than %d names, which Helm does not accept", maxDepth)
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		segments = append(segments, Segment{Name: name})
		for p.peek() == '[' {
			index, err := p.index()
			if err != nil {
				return nil, err
			}
			segments = append(segments, Segment{Index: index})
		}
		switch p.peek() {
		case end:
			return segments, nil
		case '.':
			p.next()
		default:
			return nil, p.fail("%q follows a list item: insert a dot, for example items[0].name", p.peek())
		}
	}
}

// name consumes the characters up to the next unescaped dot or bracket.
func (p *parser) name() (string, error) {
	var b strings.Builder
	for {
		switch c := p.peek(); {
		case c == end || c == '.' || c == '[':
			if b.Len() == 0 {
				return "", p.emptyName(c)
			}
			return b.String(), nil
		case c == '\\':
			if len(p.rest) < 2 || p.rest[1] != '.' {
				return "", p.fail(`a backslash is allowed only before a dot: write \. for a dot inside a name`)
			}
			p.next()
			b.WriteRune(p.next())
		case isNameRune(c):
			b.WriteRune(p.next())
		case c == ']':
			return "", p.fail("unexpected ']': write list items as [0]")
		default:
			return "", p.fail("%q is not allowed in a name: use letters, digits, '_', '-' and '/'", c)
		}
	}
}

func (p *parser) emptyName(c rune) error {
	switch {
	case c == '[' && p.position == 0:
		return p.fail("the path begins with a list item: write the name of the list first, for example items[0]")
	case c == '[':
		return p.fail("a dot precedes a list item: remove it, for example items[0]")
	case c == end:
		return p.fail("the path ends with a dot: remove it, or write the name that follows")
	case p.position == 0:
		return p.fail("the path begins with a dot: remove it")
	default:
		return p.fail(`a name is empty: remove one of the dots, or write \. for a dot inside a name`)
	}
}

// index consumes a list item such as [0].
func (p *parser) index() (int, error) {
	closing := strings.IndexRune(string(p.rest), ']')
	if closing < 0 {
		return 0, p.fail("'[' is not closed: write list items as [0]")
	}
	digits := string(p.rest)[1:closing]
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, p.fail("[%s] is not a list item: write a number, for example [0], or a name after a dot", digits)
		}
	}
	if digits == "" {
		return 0, p.fail("[] has no number: write list items as [0]")
	}
	index, err := strconv.Atoi(digits)
	if err != nil || index > maxIndex {
		return 0, p.fail("[%s] is too large: the largest list index is %d", digits, maxIndex)
	}
	for range len(digits) + 2 {
		p.next()
	}
	return index, nil
}

// end is the result of peek after the last character.
const end = rune(-1)

func (p *parser) peek() rune {
	if len(p.rest) == 0 {
		return end
	}
	return p.rest[0]
}

func (p *parser) next() rune {
	c := p.rest[0]
	p.rest = p.rest[1:]
	p.position++
	return c
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", p.position+1, fmt.Sprintf(format, args...))
}

func isNameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '/'
}

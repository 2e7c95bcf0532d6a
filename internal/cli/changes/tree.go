package changes

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/appthrust/capt/internal/terraform/change"
)

// node is a value or a collection of values that change.
type node struct {
	step      change.Step
	attribute *change.Attribute
	children  []*node
}

// attributes returns the lines of changed attributes within a block. If the block is
// new or gone, its symbol is also that of collections.
func attributes(found []change.Attribute, symbol string) []line {
	root := &node{}
	for i := range found {
		root.insert(found[i].Path, &found[i])
	}
	return root.lines(4, symbol)
}

// insert adds an attribute. Attributes of one collection follow each other.
func (n *node) insert(path change.Path, attribute *change.Attribute) {
	if len(path) == 0 {
		n.attribute = attribute
		return
	}
	if last := len(n.children) - 1; len(path) > 1 && last >= 0 && n.children[last].step == path[0] && n.children[last].attribute == nil {
		n.children[last].insert(path[1:], attribute)
		return
	}
	child := &node{step: path[0]}
	child.insert(path[1:], attribute)
	n.children = append(n.children, child)
}

// lines returns the lines of the children. Their names are aligned.
func (n *node) lines(indent int, inherited string) []line {
	width := 0
	for _, child := range n.children {
		width = max(width, len(child.name()))
	}
	var lines []line
	for _, child := range n.children {
		name, end := "", ""
		if child.step.IsIndex {
			end = ","
		} else {
			name = child.name() + strings.Repeat(" ", width-len(child.name())) + " = "
		}
		if child.attribute != nil {
			lines = append(lines, leaf(name, child.attribute, indent, end)...)
			continue
		}
		open, closing := "{", "}"
		if child.children[0].step.IsIndex {
			open, closing = "[", "]"
		}
		symbol := cmp.Or(inherited, child.symbol())
		lines = append(lines, line{cmp.Or(symbol, "~"), indent, name + open})
		lines = append(lines, child.lines(indent+4, symbol)...)
		lines = append(lines, line{indent: indent, text: closing + end})
	}
	return lines
}

// name returns the name of an attribute or the quoted key of a map.
func (n *node) name() string {
	switch path := (change.Path{n.step}).String(); {
	case n.step.IsIndex:
		return ""
	case strings.HasPrefix(path, "["):
		return strconv.Quote(n.step.Key)
	default:
		return path
	}
}

// symbol returns the symbol of an element that only one list has, or an empty string.
func (n *node) symbol() string {
	switch {
	case n.step.Removed:
		return "-"
	case n.step.Added:
		return "+"
	default:
		return ""
	}
}

package text

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Cell is one field of a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Cells makes plain cells.
func Cells(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i] = Cell{Text: text}
	}
	return cells
}

// Table is lines of cells under a heading.
type Table struct {
	heading []string
	rows    [][]Cell
}

// NewTable returns a table without lines.
func NewTable(heading ...string) *Table { return &Table{heading: heading} }

// Add appends a line.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Print writes the table. Columns are as wide as what they hold; the last is cut
// to the width of the style, and the first too when the last has no room left.
func (t *Table) Print(w io.Writer, s Style) error {
	const gap = 2
	widths := make([]int, len(t.heading))
	rows := append([][]Cell{t.headingCells()}, t.rows...)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	room := s.Width - least
	for _, width := range widths[:len(widths)-1] {
		room -= width + gap
	}
	if s.Width > 0 && room < 0 {
		widths[0] = max(widths[0]+room, least)
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		column := 0
		for i, cell := range row {
			text := cell.Text
			switch i {
			case len(t.heading) - 1:
				text = s.Fit(text, column)
			case 0:
				text = Truncate(text, widths[0])
			}
			line.WriteString(s.Paint(cell.Colour, text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
			}
			column += widths[i] + gap
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}

func (t *Table) headingCells() []Cell {
	cells := Cells(t.heading...)
	for i := range cells {
		cells[i].Colour = Dim
	}
	return cells
}

// Walk visits a tree from its root down, each node with the branches that lead
// to it.
func Walk[T any](root T, children func(T) []T, visit func(branches string, node T)) {
	walk("", "", root, children, visit)
}

func walk[T any](own, below string, node T, children func(T) []T, visit func(string, T)) {
	visit(own, node)
	kids := children(node)
	for i, kid := range kids {
		if i == len(kids)-1 {
			walk(below+"└─", below+"  ", kid, children, visit)
		} else {
			walk(below+"├─", below+"│ ", kid, children, visit)
		}
	}
}

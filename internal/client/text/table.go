package text

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/appthrust/capt/internal/message"
)

// Cell is one field of a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Cells returns cells without colour.
func Cells(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i] = Cell{Text: text}
	}
	return cells
}

// Table is a list of rows under a header.
type Table struct {
	header []string
	rows   [][]Cell
}

// NewTable returns a table without rows.
func NewTable(header ...string) *Table { return &Table{header: header} }

// Add appends a row.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Print writes the table. Columns are as wide as their widest cell. The last one
// is shortened to fit the style's width, and so is the first one if it leaves
// fewer than minWidth characters for the last.
func (t *Table) Print(w io.Writer, s Style) error {
	const gap = 2
	widths := make([]int, len(t.header))
	rows := append([][]Cell{t.headerCells()}, t.rows...)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	room := s.Width - minWidth
	for _, width := range widths[:len(widths)-1] {
		room -= width + gap
	}
	if s.Width > 0 && room < 0 {
		widths[0] = max(widths[0]+room, minWidth)
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		column := 0
		for i, cell := range row {
			text := cell.Text
			switch i {
			case len(t.header) - 1:
				text = s.Fit(text, column)
			case 0:
				text = message.TruncateWidth(text, widths[0])
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
		return fmt.Errorf("writing a table: %w", err)
	}
	return nil
}

func (t *Table) headerCells() []Cell {
	cells := Cells(t.header...)
	for i := range cells {
		cells[i].Colour = Dim
	}
	return cells
}

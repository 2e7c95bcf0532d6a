package describe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

// symbols are the symbol and colour of each state.
var symbols = map[State]struct {
	symbol string
	colour text.Colour
}{
	"":             {"", text.Plain},
	StateReady:     {"✓", text.Green},
	StateWaiting:   {"…", text.Cyan},
	StateAttention: {"!", text.Yellow},
	StateFailed:    {"✗", text.Red},
	StateUnknown:   {"?", text.Dim},
}

// Colour returns the colour of a state.
func (s State) Colour() text.Colour { return symbols[s].colour }

// Render prints the tree as a table.
func Render(w io.Writer, root *Node, style text.Style, now time.Time) error {
	table := text.NewTable("NAME", "STATUS", "SINCE", "MESSAGE")
	root.Walk(func(branches string, n *Node) {
		table.Add(
			text.Cell{Text: branches + n.title()},
			text.Cell{Text: status(n), Colour: symbols[n.State].colour},
			text.Cell{Text: text.Age(now, n.Since.Time), Colour: text.Dim},
			text.Cell{Text: details(n, now)},
		)
	})
	return table.Print(w, style)
}

// status returns the symbol of a node's state and its reason.
func status(n *Node) string {
	return strings.TrimSpace(symbols[n.State].symbol + " " + n.Reason)
}

// details returns the progress or the message of a node in one line. It has no
// ages if now is the zero time.
func details(n *Node, now time.Time) string {
	if n.Progress == nil {
		return message.OneLine(n.Message)
	}
	var parts []string
	if p := n.Progress; p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s %d/%d", bar(p.Done, p.Total), p.Done, p.Total))
	} else if p.Done > 0 {
		parts = append(parts, text.Count(p.Done, "resource")+" read")
	}
	if p := n.Progress; p.Current != "" {
		current := strings.TrimSpace(p.Action + " " + p.Current)
		if age := text.Age(now, p.CurrentSince.Time); age != "" && !now.IsZero() {
			current += " (" + age + ")"
		}
		parts = append(parts, current)
	}
	return strings.Join(parts, ", ")
}

// bar returns a progress bar.
func bar(done, total int32) string {
	const length = 10
	filled := int(min(done, total)) * length / int(total)
	return strings.Repeat("█", filled) + strings.Repeat("░", length-filled)
}

// Line returns a node in one line, for a log. It has no ages if now is the zero
// time.
func Line(n *Node, now time.Time) string {
	parts := slices.DeleteFunc([]string{n.title(), status(n), details(n, now)}, func(part string) bool { return part == "" })
	return strings.Join(parts, "  ")
}

package describe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/internal/cli/text"
	"github.com/appthrust/capt/internal/message"
)

// sign is how a state is shown.
type sign struct {
	mark   string
	colour text.Colour
}

var signs = map[State]sign{
	"":             {"", text.Plain},
	StateReady:     {"✓", text.Green},
	StateWaiting:   {"…", text.Cyan},
	StateAttention: {"!", text.Yellow},
	StateFailed:    {"✗", text.Red},
	StateUnknown:   {"?", text.Dim},
}

// Render prints the tree.
func Render(w io.Writer, root *Node, style text.Style, now time.Time) error {
	table := text.NewTable("NAME", "STATUS", "SINCE", "MESSAGE")
	text.Walk(root, func(n *Node) []*Node { return n.Children }, func(branches string, n *Node) {
		s := signs[n.State]
		table.Add(
			text.Cell{Text: branches + n.title()},
			text.Cell{Text: status(n), Colour: s.colour},
			text.Cell{Text: text.Age(now, n.Since.Time), Colour: text.Dim},
			text.Cell{Text: Says(n, now)},
		)
	})
	return table.Print(w, style)
}

// status is a state's sign with the reason.
func status(n *Node) string {
	return strings.TrimSpace(signs[n.State].mark + " " + n.Reason)
}

// Says is a node's message in one line; without a time it says no ages.
func Says(n *Node, now time.Time) string {
	if n.Progress == nil {
		return message.OneLine(n.Message)
	}
	var parts []string
	if p := n.Progress; p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s %d/%d", bar(p.Done, p.Total), p.Done, p.Total))
	} else if p.Done > 0 {
		parts = append(parts, fmt.Sprintf("%d resources read", p.Done))
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

// bar draws how much is done.
func bar(done, total int32) string {
	const length = 10
	filled := int(min(done, total)) * length / int(total)
	return strings.Repeat("█", filled) + strings.Repeat("░", length-filled)
}

// Line is one node in one line, for a log.
func Line(n *Node, now time.Time) string {
	parts := slices.DeleteFunc([]string{n.title(), status(n), Says(n, now)}, func(part string) bool { return part == "" })
	return strings.Join(parts, "  ")
}

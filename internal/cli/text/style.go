// Package text prints what commands have to say: tables and trees for people,
// JSON and YAML for programs. It knows no command.
package text

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is how text is shown: on a terminal with colours and no wider than it,
// elsewhere plain and whole.
type Style struct {
	// Colour tells whether colours are used.
	Colour bool
	// Width is how many characters fit into a line; 0 is no limit.
	Width int
}

// Colour is what a terminal paints text with. The zero value paints nothing.
type Colour string

// The colours, and two ways of emphasis.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Blue   Colour = "34"
	Cyan   Colour = "36"
)

// StyleOf returns the style for a stream. NO_COLOR and a dumb terminal turn
// colours off.
func StyleOf(w io.Writer) Style {
	if !IsTerminal(w) {
		return Style{}
	}
	style := Style{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			style.Width = width
		}
	}
	return style
}

// IsTerminal tells whether a person sits at the other end of a stream.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Paint returns text in a colour, if the style has colours.
func (s Style) Paint(c Colour, text string) string {
	if !s.Colour || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// least is what is kept of a text in any case.
const least = 20

// Fit cuts text so that it ends at the style's width when it begins at the given
// column. It keeps a word of it in any case.
func (s Style) Fit(text string, column int) string {
	if s.Width <= 0 {
		return text
	}
	return Truncate(text, max(s.Width-column, least))
}

// Truncate cuts text to a number of characters; an ellipsis tells of it.
func Truncate(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return strings.TrimRight(string(runes[:max(width-1, 0)]), " ") + "…"
}

// OneLine joins the lines of a message.
func OneLine(message string) string {
	var parts []string
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}

// Age is how long ago something was, as kubectl writes it; nothing for never.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(then), 0))
}

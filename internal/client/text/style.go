// Package text formats the output of commands: tables, trees and colours for
// terminals, JSON and YAML for programs.
package text

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/appthrust/capt/internal/message"
)

// Style is the formatting of a stream: a terminal has colours and a width, any
// other stream gets plain text of any length.
type Style struct {
	// Colour enables colours.
	Colour bool
	// Width is the number of characters that fit into a line; 0 means no limit.
	Width int
}

// Colour is the parameter of a terminal's SGR escape sequence. The zero value
// changes nothing.
type Colour string

// The colours and kinds of emphasis.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
)

// StyleOf returns the style of a stream. NO_COLOR and TERM=dumb disable colours.
func StyleOf(w io.Writer) Style {
	if !IsTerminal(w) {
		return Style{}
	}
	style := Style{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if file, ok := Raw(w).(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			style.Width = width
		}
	}
	return style
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = Raw(w)
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Paint returns text in a colour if the style has colours.
func (s Style) Paint(c Colour, text string) string {
	if !s.Colour || c == Plain || text == "" {
		return text
	}
	return Escape + "[" + string(c) + "m" + text + Escape + "[0m"
}

// minWidth is the width to which a text may be shortened on a narrow terminal.
const minWidth = 20

// Fit shortens text that starts at the given column so that it ends at the
// style's width. It keeps at least minWidth characters.
func (s Style) Fit(text string, column int) string {
	if s.Width <= 0 {
		return text
	}
	return message.TruncateWidth(text, max(s.Width-column, minWidth))
}

// Age returns the time since then in kubectl's format, or an empty string for the
// zero time.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(then), 0))
}

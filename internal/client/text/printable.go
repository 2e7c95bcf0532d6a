package text

import (
	"crypto/rand"
	"io"
	"strings"
	"unicode/utf8"
)

// Messages, logs and names come from modules and from users of clusters. An escape
// sequence in them could change the title or the clipboard of a terminal, or hide a line
// of a plan. The streams of commands therefore replace control characters. The program's
// own sequences begin with Escape, which no other text contains, and become real ones.
var (
	// Escape begins a control sequence of a terminal.
	Escape = "\x00" + rand.Text() + "\x01"
	// Return moves the cursor to the start of the line.
	Return = "\x00" + rand.Text() + "\x02"
)

// Clean replaces the characters that control a terminal or the direction of text, except
// for line breaks and tabs.
func Clean(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// isControl reports whether a terminal may act on a character instead of showing it.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL and C1.
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // Directions and separators.
		return true
	default:
		return r >= 0xe0000 && r <= 0xe007f // Invisible tags.
	}
}

// Printable is a stream that replaces control characters.
type Printable struct{ w io.Writer }

// NewPrintable returns a stream that writes to w.
func NewPrintable(w io.Writer) *Printable { return &Printable{w: w} }

// Write implements io.Writer. The data must not end within a character.
func (p *Printable) Write(data []byte) (int, error) {
	if _, err := io.WriteString(p.w, expand(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}

// expand cleans a text and replaces Escape and Return by the characters they stand for.
func expand(text string) string {
	var b strings.Builder
	for text != "" {
		i := strings.IndexByte(text, 0)
		if i < 0 {
			i = len(text)
		}
		b.WriteString(Clean(text[:i]))
		text = text[i:]
		if rest, found := strings.CutPrefix(text, Escape); found {
			b.WriteByte('\x1b')
			text = rest
		} else if rest, found := strings.CutPrefix(text, Return); found {
			b.WriteByte('\r')
			text = rest
		} else if text != "" {
			b.WriteRune(utf8.RuneError)
			text = text[1:]
		}
	}
	return b.String()
}

// Raw returns the stream below a Printable, for data of programs.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Printable); ok {
		return p.w
	}
	return w
}

package cli

import (
	"fmt"

	"github.com/appthrust/capt/internal/cli/text"
)

// progress prints a status line to stderr. On a terminal the line changes in
// place, elsewhere each change is a new line.
type progress struct {
	o     *Options
	style text.Style
	last  string
	live  bool
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: text.StyleOf(o.Err), live: text.IsTerminal(o.Err)}
}

func (p *progress) show(line string) {
	if line == p.last {
		return
	}
	p.last = line
	if p.live {
		fmt.Fprint(p.o.Err, text.Return+text.Escape+"[K"+p.style.Fit(line, 1))
		return
	}
	fmt.Fprintln(p.o.Err, line)
}

// end removes the line from a terminal.
func (p *progress) end() {
	if p.live && p.last != "" {
		fmt.Fprint(p.o.Err, text.Return+text.Escape+"[K")
	}
}

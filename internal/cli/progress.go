package cli

import (
	"fmt"
	"sync"

	"github.com/appthrust/capt/internal/client/text"
)

// progress prints a status line to stderr. On a terminal the line changes in
// place, elsewhere each change is a new line. It can be used by several goroutines.
type progress struct {
	o     *Options
	style text.Style
	live  bool

	mu sync.Mutex
	// line is the status, and shown the line that is printed: that of an outage covers the status.
	line, shown string
	covered     bool
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: text.StyleOf(o.Err), live: text.IsTerminal(o.Err)}
}

// show replaces the line. An empty one leaves it as it is.
func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line != "" {
		p.line = line
	}
	if !p.covered {
		p.print(p.line)
	}
}

// interrupt covers the line with another one until resume is called.
func (p *progress) interrupt(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.covered = true
	p.print(line)
}

// resume shows the line again that interrupt has covered, or the one that was shown since then.
func (p *progress) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.covered = false
	p.print(p.line)
}

// end removes the line from a terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = ""
	p.print("")
}

// print replaces the line that is shown. An empty one removes it from a terminal.
func (p *progress) print(line string) {
	if line == p.shown {
		return
	}
	p.shown = line
	switch {
	case p.live:
		fmt.Fprint(p.o.Err, text.Return+text.Escape+"[K"+p.style.Fit(line, 1))
	case line != "":
		fmt.Fprintln(p.o.Err, line)
	}
}

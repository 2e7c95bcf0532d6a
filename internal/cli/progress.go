package cli

import (
	"fmt"
	"sync"

	"github.com/appthrust/capt/internal/cli/text"
)

// progress prints a status line to stderr. On a terminal the line changes in
// place, elsewhere each change is a new line. It can be used by several goroutines.
type progress struct {
	o     *Options
	style text.Style
	live  bool

	mu   sync.Mutex
	last string
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: text.StyleOf(o.Err), live: text.IsTerminal(o.Err)}
}

// show replaces the line. An empty one leaves it as it is.
func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == "" || line == p.last {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && p.last != "" {
		fmt.Fprint(p.o.Err, text.Return+text.Escape+"[K")
		p.last = ""
	}
}

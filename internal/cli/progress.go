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

	mu   sync.Mutex
	last string
	// interrupted is set while a line of interrupt covers the current line, covered.
	interrupted bool
	covered     string
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: text.StyleOf(o.Err), live: text.IsTerminal(o.Err)}
}

// show replaces the line. An empty one leaves it as it is.
func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupted {
		if line != "" {
			p.covered = line
		}
		return
	}
	p.print(line)
}

// interrupt covers the line with another one until resume is called.
func (p *progress) interrupt(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.interrupted {
		p.interrupted, p.covered = true, p.last
	}
	p.print(line)
}

// resume shows the line again that interrupt has covered, or the one that was shown since then.
func (p *progress) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.interrupted {
		return
	}
	p.interrupted = false
	if p.covered == "" {
		p.clear()
		p.last = ""
	}
	p.print(p.covered)
}

// print replaces the line. An empty one leaves it as it is.
func (p *progress) print(line string) {
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
	p.clear()
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p.live && p.last != "" {
		fmt.Fprint(p.o.Err, text.Return+text.Escape+"[K")
		p.last = ""
	}
}

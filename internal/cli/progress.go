package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

// progress prints a status line to stderr. On a terminal the line changes in
// place, elsewhere each change is a new line. It can be used by several goroutines.
type progress struct {
	o     *Options
	style text.Style
	live  bool

	mu    sync.Mutex
	shown string
}

func (o *Options) progress() *progress {
	return &progress{o: o, style: o.styleOf(o.Err), live: text.IsTerminal(o.Err)}
}

// show replaces the line. An empty one removes it from a terminal.
func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// end removes the line from a terminal.
func (p *progress) end() { p.show("") }

// outage shows that the management cluster is unreachable.
func (p *progress) outage(since time.Time, err error) {
	p.show(fmt.Sprintf("Management cluster has been unreachable since %s, retrying: %s", since.Format(time.TimeOnly), message.OneLine(rootCause(err).Error())))
}

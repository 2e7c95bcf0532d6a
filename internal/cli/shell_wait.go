package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
)

// waitInterval is how often captctl repeats what it waits for.
const waitInterval = time.Minute

// shellWait tells the user what the end of a shell waits for, and lets the user give up by
// a signal that arrives while it waits. Signals before that are for the shell: a user
// presses Ctrl-C in it for other reasons.
type shellWait struct {
	o        *Options
	progress *progress
	dir      string
	giveUp   chan struct{}

	mu sync.Mutex
	// stop ends the handling of signals, if it has begun.
	stop context.CancelFunc
	last string
	next time.Time
}

func newShellWait(o *Options, p *progress, dir string) *shellWait {
	return &shellWait{o: o, progress: p, dir: dir, giveUp: make(chan struct{})}
}

// print prints a line of the log of a shell.
func (w *shellWait) print(line string) {
	w.progress.end()
	fmt.Fprintln(w.o.Err, text.Clean(message.OneLine(line)))
}

// waiting prints what the shell waits for, when it begins and once a minute.
func (w *shellWait) waiting(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm()
	now := time.Now()
	if what == w.last && now.Before(w.next) {
		return
	}
	w.last, w.next = what, now.Add(waitInterval)
	w.print(fmt.Sprintf("Waiting: %s: %v. Press Ctrl-C to give up; the files with the state are in %s and are kept", what, err, w.dir))
}

// arm lets the next signal end the wait. A closed terminal does not: no user could use
// the files.
func (w *shellWait) arm() {
	if w.stop != nil {
		return
	}
	var armed context.Context
	armed, w.stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(armed, func() { close(w.giveUp) })
}

// end ends the handling of signals. Nothing waits any more.
func (w *shellWait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
}

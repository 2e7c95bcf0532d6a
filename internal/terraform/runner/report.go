package runner

import (
	"bytes"
	"sync"
	"time"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/events"
)

// reportInterval is the interval of progress reports. A shorter run writes only its
// result.
const reportInterval = 2 * time.Second

// report collects the log and the progress of a run.
type report struct {
	log logBuffer

	mu      sync.Mutex
	tracker *events.Tracker
	changed bool
	// interruptAt is when a run that exceeds its timeout is interrupted.
	interruptAt time.Time
}

func newReport() *report { return &report{tracker: events.NewTracker()} }

func (r *report) enter(phase terraform.Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.Enter(phase, time.Now())
	r.changed = true
}

func (r *report) expect(changes []terraform.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.Expect(changes)
	r.changed = true
}

func (r *report) observe(event events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = r.tracker.Observe(event) || r.changed
}

// printed marks that the log has another line, after which a run may wait for long.
func (r *report) printed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
}

// exceedsTimeout adds to the progress when the tool is interrupted.
func (r *report) exceedsTimeout(interruptAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interruptAt, r.changed = interruptAt, true
}

// take returns the progress, and whether it changed since the last call.
func (r *report) take() (terraform.Progress, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.changed
	r.changed = false
	progress := r.tracker.Progress()
	progress.InterruptAt = r.interruptAt
	return progress, changed
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	// marked is where the part begins that cut removes.
	marked int
}

// maxLogBytes limits the log in memory. The run's Secret contains less.
const maxLogBytes = 4 << 20

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() > maxLogBytes {
		dropped := l.b.Len() - maxLogBytes/2
		l.b.Next(dropped)
		l.marked = max(0, l.marked-dropped)
	}
	return l.b.Write(p)
}

// mark is where cut begins.
func (l *logBuffer) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked = l.b.Len()
}

// cut removes what was written since mark.
func (l *logBuffer) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Truncate(l.marked)
}

// replace replaces the whole log.
func (l *logBuffer) replace(change func(string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, after := change(string(l.b.Bytes()[:l.marked])), change(string(l.b.Bytes()[l.marked:]))
	l.b.Reset()
	l.b.WriteString(before)
	l.marked = l.b.Len()
	l.b.WriteString(after)
}

func (l *logBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

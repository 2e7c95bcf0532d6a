package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/message"
)

// blockedFor is how long a wait continues for a workspace that cannot start a run before a
// user changes something. The user may have changed it just before the command, and the
// manager then needs a moment to notice.
const blockedFor = 10 * time.Second

// idleAfter is how long a wait continues without a reaction of the manager until it says so.
const idleAfter = 20 * time.Second

// idleTimer tells the user that the manager does not react to a request.
type idleTimer struct {
	progress *progress
	// hint is the next step.
	hint  string
	timer *time.Timer
	line  string
	// ran is set after a run.
	ran bool
}

// show shows a line that does not change until the manager reacts.
func (i *idleTimer) show(line string) {
	if line == "" && i.ran {
		// The manager has reacted: the line of the run remains.
		return
	}
	if line == "" {
		line = "Waiting until the manager starts the run"
	}
	if i.timer != nil && line == i.line {
		return
	}
	i.stop()
	i.line = line
	i.progress.show(line)
	i.timer = time.AfterFunc(idleAfter, func() {
		i.progress.show(fmt.Sprintf("%s. The manager has not reacted for %s: it may be busy with other runs, or down. %s", line, idleAfter, i.hint))
	})
}

// stop ends the timer: the manager has reacted, or the wait is over.
func (i *idleTimer) stop() {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

// blockedError is the error for a workspace that cannot start a run.
type blockedError struct{ error }

// blockedTimer ends a wait if a workspace cannot start a run for a while.
type blockedTimer struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	reason string
}

// observe starts the timer for a new reason that a user must remove, and stops it without
// one.
func (b *blockedTimer) observe(blocker *metav1.Condition, name string) {
	reason := ""
	if operate.NeedsUser(blocker) {
		reason = fmt.Sprintf("%s cannot start a run: %s: %s", name, blocker.Reason, message.OneLine(blocker.Message))
	}
	if reason == b.reason {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.reason = reason; reason != "" {
		b.timer = time.AfterFunc(blockedFor, func() { b.cancel(&blockedError{errors.New(reason)}) })
	}
}

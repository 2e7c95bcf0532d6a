// Package fault defines the two errors with which a reconcile step ends early
// without having failed: Waiting, for an event that is expected, and Stalled,
// until a user changes the inputs. All other errors are transient.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// minimumDelay is the delay of a wait that is already over.
const minimumDelay = time.Second

// Waiting is the error of a step that waits for an expected event. A watch ends
// the wait, or a requeue if RetryAfter is set.
type Waiting struct {
	// Reason is the reason of the condition, in CamelCase.
	Reason string
	// RetryAfter is the delay before the step runs again. Zero means that a watch
	// triggers the next run.
	RetryAfter time.Duration
	// Unknown makes the condition Unknown instead of False.
	Unknown bool

	err error
}

// Stalled is the error of a step that cannot succeed until the inputs change.
type Stalled struct {
	// Reason is the reason of the condition, in CamelCase.
	Reason string

	err error
}

// Wait returns a Waiting error that a watch ends. The format follows fmt.Errorf,
// so %w keeps a cause.
func Wait(reason, format string, args ...any) error {
	return &Waiting{Reason: reason, err: fmt.Errorf(format, args...)}
}

// WaitFor returns a Waiting error that ends after a delay. It is for events
// without a watch, such as the expiry of a token. A delay that is not positive
// becomes a short one.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	if after <= 0 {
		after = minimumDelay
	}
	return &Waiting{Reason: reason, RetryAfter: after, err: fmt.Errorf(format, args...)}
}

// Unknown returns a Waiting error that makes the condition Unknown. It is for a
// step that could not find out whether the condition is met.
func Unknown(after time.Duration, reason, format string, args ...any) error {
	return &Waiting{Reason: reason, RetryAfter: after, Unknown: true, err: fmt.Errorf(format, args...)}
}

// Stall returns a Stalled error. The format follows fmt.Errorf, so %w keeps a
// cause.
func Stall(reason, format string, args ...any) error {
	return &Stalled{Reason: reason, err: fmt.Errorf(format, args...)}
}

// AsWaiting returns the first fault in the tree of err if it is a Waiting error.
// If a wait wraps a stall or the reverse, the outer one counts.
func AsWaiting(err error) (*Waiting, bool) {
	var outer fault
	if !errors.As(err, &outer) {
		return nil, false
	}
	waiting, ok := outer.(*Waiting)
	return waiting, ok
}

// AsStalled returns the first fault in the tree of err if it is a Stalled error.
// If a wait wraps a stall or the reverse, the outer one counts.
func AsStalled(err error) (*Stalled, bool) {
	var outer fault
	if !errors.As(err, &outer) {
		return nil, false
	}
	stalled, ok := outer.(*Stalled)
	return stalled, ok
}

// Is reports whether err is or wraps a Waiting or a Stalled error.
func Is(err error) bool {
	var outer fault
	return errors.As(err, &outer)
}

// fault is the interface of Waiting and Stalled, for errors.As.
type fault interface {
	// Message returns the message of the condition, without the reason.
	Message() string
	isFault()
}

// Message returns the message of the condition, without the reason.
func (w *Waiting) Message() string { return w.err.Error() }

// Error returns the reason and the message, for logs.
func (w *Waiting) Error() string { return w.Reason + ": " + w.Message() }

// Unwrap returns the cause for errors.Is and errors.As.
func (w *Waiting) Unwrap() error { return w.err }

func (*Waiting) isFault() {}

// Message returns the message of the condition, without the reason.
func (s *Stalled) Message() string { return s.err.Error() }

// Error returns the reason and the message, for logs.
func (s *Stalled) Error() string { return s.Reason + ": " + s.Message() }

// Unwrap returns the cause for errors.Is and errors.As.
func (s *Stalled) Unwrap() error { return s.err }

func (*Stalled) isFault() {}

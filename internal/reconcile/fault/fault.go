// Package fault names the two ways in which a reconcile step can end early
// without having failed: it waits for something that will happen, or it is
// stalled until somebody changes the inputs. Any other error is transient.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// soonest is how long a wait lasts whose moment has already passed.
const soonest = time.Second

// Waiting says that something is on its way. What ends the wait is a watch, or
// the clock when RetryAfter is set.
type Waiting struct {
	// Reason is the reason of the condition, in CamelCase.
	Reason string
	// RetryAfter is when to look again; zero means that a watch will tell.
	RetryAfter time.Duration

	err error
}

// Stalled says that trying again is of no use until the inputs change.
type Stalled struct {
	// Reason is the reason of the condition, in CamelCase.
	Reason string

	err error
}

// Wait returns a wait that a watch ends. The format follows fmt.Errorf, so %w
// keeps a cause.
func Wait(reason, format string, args ...any) error {
	return &Waiting{Reason: reason, err: fmt.Errorf(format, args...)}
}

// WaitFor returns a wait that the clock ends, for what no watch can see, such
// as an interval or the expiry of a token. A moment that has already passed
// still counts as a wait: it is looked at again shortly.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	if after <= 0 {
		after = soonest
	}
	return &Waiting{Reason: reason, RetryAfter: after, err: fmt.Errorf(format, args...)}
}

// Stall returns a fault that only a change of the inputs ends. The format
// follows fmt.Errorf, so %w keeps a cause.
func Stall(reason, format string, args ...any) error {
	return &Stalled{Reason: reason, err: fmt.Errorf(format, args...)}
}

// AsWaiting finds a wait in the tree of err. When a wait and a stall are
// wrapped in each other, the outer one is what err is.
func AsWaiting(err error) (*Waiting, bool) {
	var outer fault
	if !errors.As(err, &outer) {
		return nil, false
	}
	waiting, ok := outer.(*Waiting)
	return waiting, ok
}

// AsStalled finds a stall in the tree of err. When a wait and a stall are
// wrapped in each other, the outer one is what err is.
func AsStalled(err error) (*Stalled, bool) {
	var outer fault
	if !errors.As(err, &outer) {
		return nil, false
	}
	stalled, ok := outer.(*Stalled)
	return stalled, ok
}

// fault is either of the two types, whichever errors.As meets first.
type fault interface {
	// Message is the sentence for a person, without the reason.
	Message() string
	isFault()
}

// Message is the sentence for a person, without the reason.
func (w *Waiting) Message() string { return w.err.Error() }

// Error returns the reason and the message, for logs.
func (w *Waiting) Error() string { return w.Reason + ": " + w.Message() }

// Unwrap gives the cause to errors.Is and errors.As.
func (w *Waiting) Unwrap() error { return w.err }

func (*Waiting) isFault() {}

// Message is the sentence for a person, without the reason.
func (s *Stalled) Message() string { return s.err.Error() }

// Error returns the reason and the message, for logs.
func (s *Stalled) Error() string { return s.Reason + ": " + s.Message() }

// Unwrap gives the cause to errors.Is and errors.As.
func (s *Stalled) Unwrap() error { return s.err }

func (*Stalled) isFault() {}

package command

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// Failure is the error of a command that ran and did not succeed.
type Failure struct {
	// Command is the subcommand: plan, apply and so on.
	Command  string
	ExitCode int
	// Diagnostics are what the tool said, warnings included.
	Diagnostics terraform.Diagnostics
	Class       terraform.Class
	// Lock is who held the state's lock, when Class is LockHeld.
	Lock *terraform.LockInfo
	// Interrupted is set when the command was asked to stop, Killed when it
	// did not within its grace, TimedOut when a deadline was the reason.
	Interrupted, Killed, TimedOut bool
	// StalePlan is set when the state changed after the plan was made.
	StalePlan bool
	// StateTooLarge is set when the backend cannot hold the state.
	StateTooLarge bool
	// State is the state that the tool could save nowhere else; usually it is
	// in the file that RescuedState finds.
	State []byte

	needsInit, needsBackend bool
}

// Error renders the first diagnostics, short.
func (f *Failure) Error() string {
	reason := f.Diagnostics.Errors().Short()
	switch {
	case f.Killed:
		reason = strings.TrimSpace("killed after its grace period\n" + reason)
	case reason == "" && f.Interrupted:
		reason = "interrupted"
	case reason == "":
		reason = fmt.Sprintf("exit status %d", f.ExitCode)
	}
	return fmt.Sprintf("%s failed: %s", f.Command, reason)
}

// Outcome is how a run ends with this failure.
func (f *Failure) Outcome() terraform.Outcome {
	switch {
	case f.TimedOut:
		return terraform.OutcomeTimedOut
	case f.Interrupted:
		return terraform.OutcomeInterrupted
	default:
		return terraform.OutcomeFailed
	}
}

// AsFailure returns the Failure in err, or nil.
func AsFailure(err error) *Failure {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return nil
}

// preamble is a diagnostic that only introduces the following ones.
var preamble = regexp.MustCompile(`encountered problems during initiali[sz]ation`)

func newFailure(ctx context.Context, command string, ended exit, diagnostics terraform.Diagnostics) *Failure {
	if len(diagnostics) > 1 {
		diagnostics = slices.DeleteFunc(diagnostics, func(d terraform.Diagnostic) bool { return preamble.MatchString(d.Summary) })
	}
	f := &Failure{
		Command:     command,
		ExitCode:    ended.code,
		Diagnostics: diagnostics,
		Interrupted: ended.interrupted,
		Killed:      ended.killed,
		TimedOut:    ended.interrupted && errors.Is(context.Cause(ctx), context.DeadlineExceeded),
	}
	f.Class = Classify(diagnostics)
	if f.Interrupted {
		f.Class = terraform.ClassTransient
	}
	for _, d := range diagnostics.Errors() {
		text := text(d)
		f.needsInit = f.needsInit || needsInit.MatchString(text)
		f.needsBackend = f.needsBackend || backendInit.MatchString(text)
		f.StalePlan = f.StalePlan || stalePlan.MatchString(text)
		f.StateTooLarge = f.StateTooLarge || tooLarge.MatchString(text)
		if f.Lock == nil {
			f.Lock = parseLockInfo(d.Detail + "\n" + d.Summary)
		}
	}
	return f
}

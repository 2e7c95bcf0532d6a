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

// Failure is the error of a command that ran and failed.
type Failure struct {
	// Command is the subcommand, such as plan or apply.
	Command string
	// ExitCode is negative if a signal ended the tool.
	ExitCode int
	// Diagnostics are the diagnostics of the tool, including warnings.
	Diagnostics terraform.Diagnostics
	Class       terraform.Class
	// Lock is the state's lock if Class is LockHeld.
	Lock *terraform.LockInfo
	// Interrupted is set if the command was asked to stop, Killed if it did not
	// stop within the grace period, TimedOut if the reason was a deadline.
	Interrupted, Killed, TimedOut bool
	// StalePlan is set if the state changed after the plan was created.
	StalePlan bool
	// StateTooLarge is set if the state exceeds the backend's size limit.
	StateTooLarge bool

	needsInit, needsBackend bool
}

// Error returns the first diagnostics in short form.
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

// lockLeft matches the error of a tool that could not release its lock.
var lockLeft = regexp.MustCompile(`(?i)error (releasing|unlocking) the state`)

// LockLeft reports whether the tool may have left its lock in the backend: it could not
// release it, or a signal ended it, for example because the memory was used up.
func (f *Failure) LockLeft() bool {
	return f.Killed || f.ExitCode < 0 || matches(f.Diagnostics, lockLeft)
}

// stateUnsaved matches the error of a tool that could not write its state.
var stateUnsaved = regexp.MustCompile(`(?i)failed to (save|persist) state`)

// StateUnsaved reports whether the tool could not write its state. It may have written it
// to another file, or printed it.
func (f *Failure) StateUnsaved() bool { return matches(f.Diagnostics, stateUnsaved) }

// Outcome returns the outcome of a run that ends with this failure.
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

// refusal returns the failure of a command that did not run, because of its inputs.
func refusal(command string, diagnostics ...terraform.Diagnostic) *Failure {
	for i := range diagnostics {
		diagnostics[i].Severity = terraform.SeverityError
	}
	return &Failure{Command: command, ExitCode: 1, Class: terraform.ClassTerminal, Diagnostics: diagnostics}
}

// AsFailure returns the Failure in err, or nil.
func AsFailure(err error) *Failure {
	failure, _ := errors.AsType[*Failure](err)
	return failure
}

// preamble matches a diagnostic that only introduces the next ones.
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

package runner

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// terminalError is a failure that only a change of the inputs can mend.
type terminalError struct {
	summary string
	cause   error
}

func terminal(summary string, cause error) error {
	return &terminalError{summary: summary, cause: cause}
}

func (e *terminalError) Error() string { return e.summary + ": " + e.cause.Error() }
func (e *terminalError) Unwrap() error { return e.cause }

// conclude turns an error into an outcome that says what may help.
func (r *running) conclude(err error) {
	if err == nil {
		return
	}
	result := r.result
	result.Outcome, result.Class = terraform.OutcomeFailed, terraform.ClassTransient
	var held *heldError
	var final *terminalError
	failure := command.AsFailure(err)
	switch {
	case errors.As(err, &held):
		result.Class, result.Lock = terraform.ClassLockHeld, &held.info
		result.Diagnostics = diagnostic("State locked", held.Error())
	case errors.Is(err, errSavedLate):
		result.Outcome = terraform.OutcomeInterrupted
		result.Diagnostics = diagnostic("State saved late", err.Error())
	case failure != nil:
		result.Outcome, result.Class = failure.Outcome(), failure.Class
		result.Diagnostics = slices.Concat(failure.Diagnostics, result.Diagnostics)
		result.Lock, result.StalePlan = failure.Lock, failure.StalePlan
		result.StateTooLarge = result.StateTooLarge || failure.StateTooLarge
	case errors.As(err, &final):
		result.Class = terraform.ClassTerminal
		result.Diagnostics = diagnostic(final.summary, final.cause.Error())
	case errors.Is(err, context.DeadlineExceeded) && !apierrors.IsTimeout(err):
		result.Outcome = terraform.OutcomeTimedOut
	case errors.Is(err, context.Canceled):
		result.Outcome = terraform.OutcomeInterrupted
	case apierrors.IsForbidden(err):
		result.Class = terraform.ClassTerminal
		result.Diagnostics = diagnostic("Not allowed", err.Error())
	default:
		result.Diagnostics = diagnostic("The run failed", err.Error())
	}
	r.hide(result.Diagnostics)
}

// hide keeps secrets out of what people read. The tool's own messages are
// without them already.
func (r *running) hide(diagnostics terraform.Diagnostics) {
	var pairs []string
	for _, secret := range r.request.Secrets() {
		pairs = append(pairs, secret, "(sensitive value)")
	}
	mask := strings.NewReplacer(pairs...)
	for i := range diagnostics {
		diagnostics[i].Summary, diagnostics[i].Detail = mask.Replace(diagnostics[i].Summary), mask.Replace(diagnostics[i].Detail)
	}
}

func diagnostic(summary, detail string) terraform.Diagnostics {
	return terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: summary, Detail: detail}}
}

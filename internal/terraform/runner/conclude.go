package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command"
)

// terminalError is a failure that only a change of the inputs can fix.
type terminalError struct {
	summary string
	cause   error
}

func terminal(summary string, cause error) error {
	return &terminalError{summary: summary, cause: cause}
}

func (e *terminalError) Error() string { return e.summary + ": " + e.cause.Error() }

func (e *terminalError) Unwrap() error { return e.cause }

// conclude converts an error into the outcome, class and diagnostics of the result.
func (run *execution) conclude(err error) {
	defer run.redact()
	result := run.result
	result.LockLeft = run.session != nil && run.session.LockLeft
	if err == nil {
		return
	}
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
		result.LockLeft = result.LockLeft || run.state == nil && failure.LockLeft()
		result.StateTooLarge = result.StateTooLarge || failure.StateTooLarge
	case errors.As(err, &final):
		result.Class = terraform.ClassTerminal
		result.Diagnostics = diagnostic(final.summary, final.cause.Error())
	case errors.Is(err, context.DeadlineExceeded) && !apierrors.IsTimeout(err):
		result.Outcome = terraform.OutcomeTimedOut
		result.Diagnostics = diagnostic("Timed out", err.Error())
	case errors.Is(err, context.Canceled):
		result.Outcome = terraform.OutcomeInterrupted
	case apierrors.IsForbidden(err):
		result.Class = terraform.ClassTerminal
		result.Diagnostics = diagnostic("Not allowed", err.Error())
	default:
		result.Diagnostics = diagnostic("The run failed", err.Error())
	}
}

// maskTimeout is how long reading the sensitive values of a plan may take.
const maskTimeout = time.Minute

// hideSensitive masks the sensitive values of the plan in the messages of an apply. The tool
// does not show them, but providers repeat their arguments in errors and warnings, and do not
// know which of them are sensitive. What cannot be masked is omitted.
func (r *Runner) hideSensitive(ctx context.Context, run *execution, failure *command.Failure) {
	messages := run.result.Diagnostics
	if failure != nil {
		messages = failure.Diagnostics
	}
	planned := run.result.Plan != nil || run.request.Plan != nil
	if len(messages) == 0 || !planned || !run.result.ChangesState() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maskTimeout)
	defer cancel()
	plan, err := r.describer.described(ctx, run)
	run.hide(messages, plan, err)
}

// hide masks sensitive values in messages and in the log of the apply. The error is why
// there is no description of the plan.
func (run *execution) hide(messages terraform.Diagnostics, plan *description, err error) {
	if err != nil {
		for i := range messages {
			messages[i].Detail = fmt.Sprintf("The details are omitted, because sensitive values in them cannot be masked: %v", err)
		}
		run.report.log.cut()
		run.printf("The log of the apply is omitted, because sensitive values in it cannot be masked: %v", err)
		return
	}
	for i := range messages {
		d := &messages[i]
		d.Summary, d.Detail, d.Address = plan.mask(d.Summary), plan.mask(d.Detail), plan.mask(d.Address)
	}
	run.report.log.replace(plan.mask)
}

// redact masks the secrets of the request in the texts of the result. The tool's own
// diagnostics are already redacted.
func (run *execution) redact() {
	if run.request == nil {
		return
	}
	run.result.Redact(run.redactor())
}

func diagnostic(summary, detail string) terraform.Diagnostics {
	return terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: summary, Detail: detail}}
}

package cli

import (
	"errors"
	"fmt"
)

// Exit is an error with the exit code of captctl: 1 for a problem that was found
// or a failure, 2 for wrong usage.
type Exit struct {
	Code int
	// Err is nil if everything is printed already.
	Err error
}

// Error returns the text of the error, which may be empty.
func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// usageError returns an error with the exit code for wrong usage.
func usageError(format string, args ...any) error {
	return &Exit{Code: 2, Err: fmt.Errorf(format, args...)}
}

// Code returns the exit code for an error.
func Code(err error) int {
	var exit *Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	default:
		return 1
	}
}

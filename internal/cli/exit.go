package cli

import "errors"

// Exit is an error that decides the exit code of captctl: 1 for a finding or a
// failure, 2 for a command that was called wrongly.
type Exit struct {
	Code int
	Err  error
}

// Error returns the text, which may be empty when everything was said already.
func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Code is the exit code that an error asks for.
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

package command

import (
	"context"
	"regexp"
	"time"
)

const (
	// ServeEnv is the environment variable, of a request or of this process, that turns the
	// serving of providers off. Its value is then serveOff.
	ServeEnv = "CAPT_SERVE_PROVIDERS"
	serveOff = "off"
)

// brokenProvider matches the errors of a tool that cannot use a provider which it has not
// started.
var brokenProvider = regexp.MustCompile(`(?i)plugin did not respond|failed to (instantiate|load|obtain) (provider|schema|plugin)|reattachment process not found|incompatible api version`)

// reading runs a command that changes nothing, and once more with providers that the tool
// starts, if it failed because of one that the tool has not started. So the errors are those
// that the user knows, such as the stack of a provider that crashed.
func (s *Session) reading(ctx context.Context, run func() error) error {
	err := s.ready(ctx, run)
	failure := AsFailure(err)
	if failure == nil || failure.Interrupted || !s.served.isActive() {
		return err
	}
	if !s.served.hasEnded() && !matches(failure.Diagnostics, brokenProvider) {
		return err
	}
	s.log.print(time.Time{}, "Running the command once more: a provider that serves several commands failed")
	s.StopProviders()
	return s.ready(ctx, run)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// settleTimeout is how long workspaces may take to settle after the last fault, on a busy
	// machine.
	settleTimeout = 9 * time.Minute
	// startTimeout is how long one attempt to start the environment may take.
	startTimeout = 3 * time.Minute
	// pollInterval is the interval between requests to the API server, and
	// attemptTimeout the time that one attempt may take.
	pollInterval   = 200 * time.Millisecond
	attemptTimeout = 20 * time.Second
)

// errTimeout means that a wait has reached its deadline.
var errTimeout = errors.New("timed out")

// await calls try until it succeeds or settleTimeout has passed.
func await(ctx context.Context, try func(context.Context) error) error {
	return poll(ctx, settleTimeout, try)
}

// poll calls try until it succeeds or the timeout has passed.
func poll(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	started := time.Now()
	for {
		// A suspended API server does not respond.
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if time.Since(started) > timeout {
			return fmt.Errorf("%w after %s: %w", errTimeout, timeout, err)
		}
		if !sleep(ctx, pollInterval) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// sleep waits, and reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

package controlplane

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const pollInterval = 20 * time.Millisecond

// poll calls done until it returns true, and reports false if ctx ends before.
func poll(ctx context.Context, interval time.Duration, done func() bool) bool {
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) { return done(), nil })
	return err == nil
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

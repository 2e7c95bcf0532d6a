package runner

import (
	"context"
	"time"
)

// patience is how a user waits for an API server that is unavailable. Runs have none, because
// no user watches them: they wait as long as they may.
type patience struct {
	// waiting is called after each failed attempt, with what is tried and why it failed.
	waiting func(what string, err error)
	// giveUp is closed when the user does not want to wait any more.
	giveUp <-chan struct{}
}

// maxPatience is how long a command of a user tries to save what it has. Its directory is
// kept, so that it need not try as long as a run.
const maxPatience = persistTimeout

const (
	// attemptTimeout is how long one attempt may take, and lastAttemptTimeout one after the
	// user gave up.
	attemptTimeout     = 30 * time.Second
	lastAttemptTimeout = 5 * time.Second
)

type patienceKey struct{}

// withPatience returns a context whose retries tell the user that they wait.
func withPatience(ctx context.Context, p *patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// patienceOf returns the patience of a context, or nil.
func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

func (p *patience) limit(timeout time.Duration) time.Duration {
	if p == nil {
		return timeout
	}
	return min(timeout, maxPatience)
}

func (p *patience) waitFor(what string, err error) {
	if p != nil && p.waiting != nil {
		p.waiting(what, err)
	}
}

// gaveUp returns a channel that is closed when the user gives up, or nil.
func (p *patience) gaveUp() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.giveUp
}

// attempt calls write, for a limited time. It ends when the user gives up. After that, each
// step has one more attempt.
func (p *patience) attempt(ctx context.Context, write func(context.Context) error) error {
	timeout, gaveUp := attemptTimeout, p.gaveUp()
	select {
	case <-gaveUp:
		timeout, gaveUp = lastAttemptTimeout, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if gaveUp != nil {
		go func() {
			select {
			case <-gaveUp:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return write(ctx)
}

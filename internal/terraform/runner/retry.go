package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// persistTimeout is how long a runner waits for an unavailable API server. It is also
	// how long a command of a user tries to save a state, because its directory is kept.
	persistTimeout = 30 * time.Minute
	// attemptTimeout is how long one attempt may take, and lastAttemptTimeout one after the
	// user gave up.
	attemptTimeout     = 30 * time.Second
	lastAttemptTimeout = 5 * time.Second
)

// persist retries write until it succeeds, fails permanently or persistTimeout has
// passed. A run must record what it did even if the API server is unavailable for a
// while. It ignores the cancellation of ctx.
func persist(ctx context.Context, what string, write func(context.Context) error) error {
	return retry(ctx, persistTimeout, what, isPermanent, write)
}

// isPermanent reports whether the API server would answer the same to another attempt.
func isPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// retry calls write until it succeeds, fails permanently, the timeout has passed or the user
// gives up. A permanentError is always permanent. It ignores the cancellation of ctx.
func retry(ctx context.Context, timeout time.Duration, what string, isPermanent func(error) bool, write func(context.Context) error) error {
	user := userOf(ctx)
	if user.waiting != nil {
		timeout = min(timeout, persistTimeout)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := user.attempt(ctx, write)
		var permanent *permanentError
		if err == nil || errors.As(err, &permanent) || isPermanent(err) {
			return wrap(what, err)
		}
		if user.waiting != nil {
			user.waiting(what, err)
		}
		select {
		case <-ctx.Done():
			return wrap(what, fmt.Errorf("giving up after %s: %w", timeout, err))
		case <-user.giveUp:
			return wrap(what, fmt.Errorf("interrupted: %w", err))
		case <-time.After(wait):
		}
	}
}

// permanentError is an error that a retry does not fix.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// user is the user of a shell, who watches the retries and can end them. A run has none.
type user struct {
	// waiting is called after each failed attempt, with what is tried and why it failed.
	waiting func(what string, err error)
	// giveUp is closed when the user does not want to wait any more.
	giveUp <-chan struct{}
}

type userKey struct{}

// withUser returns a context whose retries tell the user that they wait.
func withUser(ctx context.Context, u user) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// userOf returns the user of a context, who is empty for a run.
func userOf(ctx context.Context) user {
	u, _ := ctx.Value(userKey{}).(user)
	return u
}

// attempt calls write, for a limited time. It ends when the user gives up. After that, each
// step has one more attempt.
func (u user) attempt(ctx context.Context, write func(context.Context) error) error {
	timeout, gaveUp := attemptTimeout, u.giveUp
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

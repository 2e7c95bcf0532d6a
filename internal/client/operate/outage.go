package operate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// OutageLimit is how long a wait continues without the API server by default. It
	// suffices for a restart, and for a laptop that connects again after it slept.
	OutageLimit = 5 * time.Minute
	// firstDelay and lastDelay are the delays between two attempts to connect.
	firstDelay, lastDelay = 500 * time.Millisecond, 10 * time.Second
)

// Outage configures what Watch does while the API server is unreachable.
type Outage struct {
	// Limit is how long Watch tries to connect again. It defaults to five minutes.
	Limit time.Duration
	// Report is called after each failed attempt. It may be nil.
	Report func(since time.Time, err error)
	// Ended is called when the state after an outage was observed. It may be nil.
	Ended func()
}

// lostConnection is the current outage of a watch, if any.
type lostConnection struct {
	Outage
	since time.Time
	delay time.Duration
}

// wait waits before the next attempt to connect, and reports whether there is one: the
// outage may be too long, or the context ended. In that case the error of the watch says why.
func (l *lostConnection) wait(ctx context.Context, err error) bool {
	if l.Limit == 0 {
		l.Limit = OutageLimit
	}
	if l.since.IsZero() {
		l.since, l.delay = time.Now(), firstDelay
	}
	left := l.Limit - time.Since(l.since)
	if left <= 0 {
		return false
	}
	if l.Report != nil {
		l.Report(l.since, err)
	}
	timer := time.NewTimer(min(l.delay, left))
	defer timer.Stop()
	l.delay = min(2*l.delay, lastDelay)
	select {
	case <-timer.C:
	case <-ctx.Done():
		// The next attempt ends with the error of the context.
	}
	return true
}

// end ends the outage, if there is one.
func (l *lostConnection) end() {
	if !l.since.IsZero() && l.Ended != nil {
		l.Ended()
	}
	l.since = time.Time{}
}

// IsOutage reports whether an error of the API server or of the way to it may pass by
// itself. A dial that timed out matches context.DeadlineExceeded like the error of a context
// with a deadline, so both are outages: the caller checks its own context.
func IsOutage(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || utilnet.IsTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrDeleted reports that an object was deleted while it was watched.
var ErrDeleted = errors.New("it was deleted")

// OutageLimit is how long a wait continues without the API server. It suffices for a restart,
// and for a laptop that connects again after it slept.
const OutageLimit = 5 * time.Minute

// Watch calls observe with the current state of an object and after each change, until
// observe reports that it is done. The list is an empty list of the object's kind. An outage
// of the API server ends it after OutageLimit; report is called after each failed attempt to
// connect, and may be nil.
func Watch[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, of T, report func(since time.Time, err error), observe func(T) (done bool, err error)) error {
	var uid types.UID
	var lost time.Time // Zero while there is no outage.
	observeOne := func(obj T) (bool, error) {
		if uid != "" && obj.GetUID() != uid {
			return false, ErrDeleted // Another object has the name now.
		}
		uid, lost = obj.GetUID(), time.Time{}
		done, err := observe(obj)
		if err != nil {
			return false, &observerError{err}
		}
		return done, nil
	}
	var delay wait.Backoff
	for {
		done, err := watchOnce(ctx, c, list, of, observeOne)
		if failed, ok := errors.AsType[*observerError](err); ok {
			return failed.error
		}
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("watching %s: %w", of.GetName(), ctx.Err())
		case err == nil:
			// The API server closes every watch after a while: open a new one.
			continue
		case lost.IsZero():
			lost, delay = time.Now(), wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 100, Cap: 10 * time.Second}
		}
		if !IsOutage(err) || time.Since(lost) >= OutageLimit {
			return fmt.Errorf("watching %s: %w", of.GetName(), err)
		}
		if report != nil {
			report(lost, err)
		}
		select {
		case <-time.After(delay.Step()):
		case <-ctx.Done():
		}
	}
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

// observerError is an error of the function that observes, not of the API server.
type observerError struct{ error }

// watchOnce watches until observe is done or the API server closes the watch.
func watchOnce[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, of T, observe func(T) (bool, error)) (bool, error) {
	key := client.ObjectKeyFromObject(of)
	w, err := c.Watch(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	// A watch sends nothing if the object was deleted before.
	current, _ := of.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, key, current); apierrors.IsNotFound(err) {
		return false, ErrDeleted
	} else if err != nil {
		return false, err
	}
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			obj, ok := event.Object.(T)
			if !ok {
				return false, fmt.Errorf("got a %T", event.Object)
			}
			if done, err := observe(obj); done || err != nil {
				return done, err
			}
		case watch.Deleted:
			return false, ErrDeleted
		case watch.Error:
			// The decoder reports the end of the context as such an event, too.
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return false, err
			}
		}
	}
	return false, nil
}

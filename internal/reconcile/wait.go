package reconcile

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/appthrust/capt/internal/reconcile/fault"
)

// WaitIfNotFound returns the result of reading an object: nil if err is nil, a wait
// if the object does not exist, and other errors wrapped. The hint, which may be
// empty, tells the user what to do.
func WaitIfNotFound(err error, reason, object, hint string) error {
	switch {
	case apierrors.IsNotFound(err) && hint != "":
		return fault.Wait(reason, "%s does not exist: %s", object, hint)
	case apierrors.IsNotFound(err):
		return fault.Wait(reason, "%s does not exist", object)
	case err != nil:
		return fmt.Errorf("reading %s: %w", object, err)
	}
	return nil
}

// Backoff returns the wait before the next retry after a number of retries in a row:
// the minimum, doubled for each of them, and at most the maximum.
func Backoff(minimum, maximum time.Duration, retries int32) time.Duration {
	wait := minimum
	for range retries {
		if wait *= 2; wait >= maximum {
			return maximum
		}
	}
	return min(wait, maximum)
}

package reconcile

import (
	"fmt"

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

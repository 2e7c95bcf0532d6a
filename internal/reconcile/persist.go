package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// ensureFinalizer adds the finalizer in a write of its own, so that nothing is
// made for an object that could vanish unseen. It refuses to write over a
// newer version, because a merge patch would drop the finalizers that others
// added meanwhile.
func ensureFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying object: %T is not an object", obj)
	}
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return nil
	}
	merge := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, merge); err != nil {
		return fmt.Errorf("adding finalizer %s: %w", finalizer, err)
	}
	return nil
}

// persist writes what changed since the helper was made, and nothing when
// nothing did. It tells whether the object has what it was given: a deleted
// object may be gone for good, which is no error.
func persist(ctx context.Context, helper *patch.Helper, obj Object, owned []string) (written bool, err error) {
	err = helper.Patch(ctx, obj, patch.WithOwnedConditions{Conditions: owned})
	switch {
	case err == nil:
		return true, nil
	case !obj.GetDeletionTimestamp().IsZero() && every(err, apierrors.IsNotFound):
		return false, nil
	default:
		return false, fmt.Errorf("persisting status: %w", err)
	}
}

// isConflict tells whether an error is nothing but somebody else having written
// first.
func isConflict(err error) bool {
	return every(err, func(err error) bool {
		return apierrors.IsConflict(err) || isExhausted(err)
	})
}

// isExhausted tells whether the patch helper gave up on a conflict; it then
// returns the timeout of its own retries, not the conflict.
func isExhausted(err error) bool {
	return wait.Interrupted(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// every tells whether each error that err was made of matches.
func every(err error, match func(error) bool) bool {
	for _, branch := range branches(err) {
		if !match(branch) {
			return false
		}
	}
	return true
}

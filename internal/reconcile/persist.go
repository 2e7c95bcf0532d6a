package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// persistAttempts is how often a write is tried again after somebody else wrote
// first.
const persistAttempts = 4

// persist writes what changed, and nothing when nothing did: the status in one
// write, so that nobody reads a condition without what it speaks of, then
// metadata and spec. It tells whether the object has what it was given: a
// deleted object may be gone for good, which is no error.
func (f *Frame[T, S]) persist(ctx context.Context, before, obj T) (written bool, err error) {
	if err = f.persistStatus(ctx, before, obj); err == nil {
		err = f.persistRest(ctx, before, obj)
	}
	switch {
	case err == nil:
		return true, nil
	case !obj.GetDeletionTimestamp().IsZero() && every(err, apierrors.IsNotFound):
		return false, nil
	default:
		return false, fmt.Errorf("persisting status: %w", err)
	}
}

// persistStatus replaces the status, conditions included, on the version it was
// made for. If that is not the latest, the conditions of others are taken over
// from the latest and ours are written again.
func (f *Frame[T, S]) persistStatus(ctx context.Context, before, obj T) error {
	return f.retry(ctx, before, func(base T) error {
		keepForeign(obj, base, f.owned())
		diff, err := difference(base, obj)
		if err != nil || diff["status"] == nil {
			return err
		}
		return f.send(ctx, f.Client.Status().Patch, base, obj, map[string]json.RawMessage{"status": diff["status"]})
	})
}

// persistRest writes metadata and spec. The finalizers of others stay.
func (f *Frame[T, S]) persistRest(ctx context.Context, before, obj T) error {
	before.SetResourceVersion(obj.GetResourceVersion())
	diff, err := difference(before, obj)
	if err != nil {
		return err
	}
	delete(diff, "status")
	if len(diff) == 0 {
		return nil
	}
	gone := controllerutil.ContainsFinalizer(before, f.Finalizer) && !controllerutil.ContainsFinalizer(obj, f.Finalizer)
	return f.retry(ctx, before, func(base T) error {
		obj.SetFinalizers(slices.Clone(base.GetFinalizers()))
		if gone {
			controllerutil.RemoveFinalizer(obj, f.Finalizer)
		}
		diff, err := difference(before, obj)
		if err != nil {
			return err
		}
		delete(diff, "status")
		return f.send(ctx, func(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			return f.Client.Patch(ctx, o, p)
		}, base, obj, diff)
	})
}

// retry writes on the given version, and on the latest after a conflict.
func (f *Frame[T, S]) retry(ctx context.Context, base T, write func(base T) error) error {
	for attempt := 1; ; attempt++ {
		err := write(base)
		if !apierrors.IsConflict(err) || attempt == persistAttempts {
			return err
		}
		reader := f.Reader
		if reader == nil {
			reader = f.Client
		}
		key := client.ObjectKeyFromObject(base)
		base = newObject[T]()
		if err := reader.Get(ctx, key, base); err != nil {
			return fmt.Errorf("reading the latest version: %w", err)
		}
	}
}

type patcher func(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error

// send patches the version base. What comes back does not replace what is in
// memory, except for the version.
func (f *Frame[T, S]) send(ctx context.Context, patch patcher, base, obj T, body map[string]json.RawMessage) error {
	var meta map[string]json.RawMessage
	if body["metadata"] != nil {
		if err := json.Unmarshal(body["metadata"], &meta); err != nil {
			return fmt.Errorf("encoding patch: %w", err)
		}
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	var err error
	if meta["resourceVersion"], err = json.Marshal(base.GetResourceVersion()); err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	if body["metadata"], err = json.Marshal(meta); err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	answer, ok := obj.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copying object: %T copies to another type", obj)
	}
	if err := patch(ctx, answer, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	obj.SetResourceVersion(answer.GetResourceVersion())
	return nil
}

// difference is the merge patch from one version to another, by top-level field.
func difference(from, to client.Object) (map[string]json.RawMessage, error) {
	data, err := client.MergeFrom(from).Data(to)
	if err != nil {
		return nil, fmt.Errorf("comparing versions: %w", err)
	}
	diff := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &diff); err != nil {
		return nil, fmt.Errorf("comparing versions: %w", err)
	}
	return diff, nil
}

// keepForeign takes over the conditions of others from the latest version.
func keepForeign(obj, latest Object, owned []string) {
	isOwned := func(c metav1.Condition) bool { return slices.Contains(owned, c.Type) }
	ours := slices.DeleteFunc(slices.Clone(obj.GetConditions()), func(c metav1.Condition) bool { return !isOwned(c) })
	theirs := slices.DeleteFunc(slices.Clone(latest.GetConditions()), isOwned)
	if len(theirs) == 0 && len(ours) == len(obj.GetConditions()) {
		return
	}
	obj.SetConditions(slices.Concat(ours, theirs))
}

// isConflict tells whether an error is nothing but somebody else having written
// first.
func isConflict(err error) bool {
	return every(err, apierrors.IsConflict)
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

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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

// persist writes what changed, and nothing when nothing did: the status in one
// write, so that nobody reads a condition without what it speaks of, then
// metadata and spec. It writes on the version that was read and on no other:
// what was decided on an old version must not replace what is newer. It tells
// whether the object has what it was given: a deleted object may be gone for
// good, which is no error.
func (f *Frame[T, S]) persist(ctx context.Context, before, obj T) (written bool, err error) {
	status, rest, err := changes(before, obj)
	if err == nil && status != nil {
		err = f.send(ctx, f.Client.Status().Patch, obj, status)
	}
	if err == nil && rest != nil {
		err = f.send(ctx, func(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			return f.Client.Patch(ctx, o, p)
		}, obj, rest)
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

type patcher func(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error

// send patches the version that obj has. What comes back does not replace what
// is in memory, except for the version.
func (f *Frame[T, S]) send(ctx context.Context, patch patcher, obj T, body map[string]any) error {
	meta, _ := body["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["resourceVersion"] = obj.GetResourceVersion()
	body["metadata"] = meta
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
	f.latest.Store(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
	return nil
}

// changes is the merge patch from one version to another: that of the status,
// and that of everything else. Each is nil when nothing changed.
func changes(from, to client.Object) (status, rest map[string]any, err error) {
	data, err := client.MergeFrom(from).Data(to)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing versions: %w", err)
	}
	if err := json.Unmarshal(data, &rest); err != nil {
		return nil, nil, fmt.Errorf("comparing versions: %w", err)
	}
	if changed, found := rest["status"]; found {
		status = map[string]any{"status": changed}
		delete(rest, "status")
	}
	if len(rest) == 0 {
		rest = nil
	}
	return status, rest, nil
}

// behind tells whether the cache has not seen yet what this frame wrote last.
func (f *Frame[T, S]) behind(obj T) bool {
	key := client.ObjectKeyFromObject(obj)
	latest, found := f.latest.Load(key)
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), latest.(string))
	if err == nil && order < 0 {
		return true
	}
	f.latest.Delete(key)
	return false
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

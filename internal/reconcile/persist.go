package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// ensureFinalizer adds the finalizer in a write of its own, before any other
// resource is created, so that deletion always runs the Delete steps. It uses
// optimistic locking, because a merge patch would drop finalizers that other
// clients added in the meantime.
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

// persist writes the changes of an object, if there are any: first the status,
// in one write so that a condition is never visible without the fields it refers
// to, then metadata and spec. It writes only if the version that was read is
// still the current one, because a decision on an old version must not replace
// newer data. It reports whether the object was written. An object that was
// being deleted and no longer exists is not an error.
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

// send patches the resource version of obj. Of the response only the new
// resource version is copied to obj.
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
	response, ok := obj.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("copying object: %T copies to another type", obj)
	}
	if err := patch(ctx, response, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	obj.SetResourceVersion(response.GetResourceVersion())
	f.latest.Store(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
	return nil
}

// changes returns the merge patch between two versions of an object: that of the
// status and that of the rest. Each is nil if nothing changed.
func changes(from, to client.Object) (status, rest map[string]any, err error) {
	if reflect.DeepEqual(from, to) {
		// Most reconciles change nothing, and encoding both versions is a large part of their
		// cost.
		return nil, nil, nil
	}
	data, err := client.MergeFrom(from).Data(to)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing versions: %w", err)
	}
	if err := json.Unmarshal(data, &rest); err != nil {
		return nil, nil, fmt.Errorf("comparing versions: %w", err)
	}
	// A step may have written the object.
	if meta, ok := rest["metadata"].(map[string]any); ok {
		for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
			delete(meta, field)
		}
		if len(meta) == 0 {
			delete(rest, "metadata")
		}
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

// isStale reports whether obj is older than the last write of this frame, because
// the cache has not caught up.
func (f *Frame[T, S]) isStale(obj T) bool {
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

// isConflict reports whether all parts of an error are conflicts: another client
// wrote first.
func isConflict(err error) bool {
	return every(err, apierrors.IsConflict)
}

// every reports whether all parts of a joined error match.
func every(err error, match func(error) bool) bool {
	for _, branch := range branches(err) {
		if !match(branch) {
			return false
		}
	}
	return true
}

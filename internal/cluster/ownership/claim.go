package ownership

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Claimer claims objects for their owner.
type Claimer[T client.Object] struct {
	Owner  Owner
	Client client.Client
	// Reference is the owner reference that makes the owner the controller.
	Reference metav1.OwnerReference
	// Confirm is called before an adoption. It returns an error if the owner is
	// no longer the one that was read.
	Confirm func(ctx context.Context) error
	// OnAdopt and OnRelease are called with the object as it was written.
	OnAdopt, OnRelease func(obj T)
}

// Claim adopts and releases candidates. It returns those that the owner controls
// afterwards, or an error if any of them could not be written.
func (c *Claimer[T]) Claim(ctx context.Context, candidates []T) ([]T, error) {
	var claimed []T
	var errs []error
	for _, obj := range candidates {
		switch c.Owner.Decide(obj) {
		case Keep:
			claimed = append(claimed, obj)
		case Adopt:
			adopted, found, err := c.adopt(ctx, obj)
			if found {
				claimed = append(claimed, adopted)
			}
			errs = append(errs, err)
		case Release:
			errs = append(errs, c.release(ctx, obj))
		case Ignore:
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return claimed, nil
}

// adopt makes the owner the controller of an object. It reports false if the
// object no longer exists.
func (c *Claimer[T]) adopt(ctx context.Context, obj T) (T, bool, error) {
	if err := c.Confirm(ctx); err != nil {
		return obj, false, err
	}
	adopted, err := c.write(ctx, obj, withController(obj.GetOwnerReferences(), c.Reference))
	if apierrors.IsNotFound(err) {
		return obj, false, nil
	}
	if err != nil {
		return obj, false, fmt.Errorf("adopting %s: %w", obj.GetName(), err)
	}
	c.OnAdopt(adopted)
	return adopted, true, nil
}

// release removes the owner from an object.
func (c *Claimer[T]) release(ctx context.Context, obj T) error {
	released, err := c.write(ctx, obj, withoutOwner(obj.GetOwnerReferences(), c.Reference))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing %s: %w", obj.GetName(), err)
	}
	c.OnRelease(released)
	return nil
}

func (c *Claimer[T]) write(ctx context.Context, obj T, refs []metav1.OwnerReference) (T, error) {
	written, ok := obj.DeepCopyObject().(T)
	if !ok {
		return obj, fmt.Errorf("the copy of a %T has another type", obj)
	}
	written.SetOwnerReferences(refs)
	return written, Patch(ctx, c.Client, obj, written)
}

// Patch writes to only if the object is still at the version of from. A merge
// patch replaces whole lists such as the owner references, and a decision about
// an old version must not take effect.
func Patch(ctx context.Context, c client.Client, from, to client.Object) error {
	return c.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
}

// errChanged is the cause of the conflict that Confirm returns.
var errChanged = errors.New("the object changed since it was read")

// Confirm reads an object from the API server into live. It returns a conflict if
// cached is outdated: the object was deleted, is being deleted, was created anew
// under the same name, or has another spec.
func Confirm(ctx context.Context, reader client.Reader, resource schema.GroupResource, cached, live client.Object) error {
	if err := reader.Get(ctx, client.ObjectKeyFromObject(cached), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s: %w", resource.Resource, cached.GetName(), err)
	}
	if live.GetUID() != cached.GetUID() || live.GetGeneration() != cached.GetGeneration() || !live.GetDeletionTimestamp().IsZero() {
		return apierrors.NewConflict(resource, cached.GetName(), errChanged)
	}
	return nil
}

// Pointers returns pointers to the items of a list.
func Pointers[T any](items []T) []*T {
	all := make([]*T, 0, len(items))
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

package ownership

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/object"
)

// Claimer finds the objects of an owner. It adopts those that match and have no
// controller, and releases those that no longer match.
type Claimer[T client.Object] struct {
	Owner  Owner
	Client client.Client
	// APIReader reads from the API server instead of the cache.
	APIReader client.Reader
	// Reference is the owner reference that makes the owner the controller.
	Reference metav1.OwnerReference
	// Field is that of the Index of the objects.
	Field string
	// NewList returns an empty list of the objects.
	NewList func() client.ObjectList
	// OnAdopt and OnRelease are called with the object as it was written.
	OnAdopt, OnRelease func(obj T)

	// confirmed reports whether the API server has confirmed the owner.
	confirmed bool
}

// Cached claims the objects in the cache. They may be shared with it.
func (c *Claimer[T]) Cached(ctx context.Context) ([]T, error) {
	var candidates []T
	for _, controller := range []string{string(c.Owner.GetUID()), NoController} {
		found, err := c.list(ctx, c.Client, client.MatchingFields{c.Field: controller}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, found...)
	}
	return c.Claim(ctx, candidates)
}

// Live claims the objects that the API server lists.
func (c *Claimer[T]) Live(ctx context.Context, options ...client.ListOption) ([]T, error) {
	candidates, err := c.list(ctx, c.APIReader, options...)
	if err != nil {
		return nil, err
	}
	return c.Claim(ctx, candidates)
}

func (c *Claimer[T]) list(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]T, error) {
	list := c.NewList()
	if err := reader.List(ctx, list, append(options, client.InNamespace(c.Owner.GetNamespace()))...); err != nil {
		return nil, fmt.Errorf("listing the objects of %s: %w", c.Owner.GetName(), err)
	}
	var found []T
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(T); ok {
			found = append(found, obj)
		}
		return nil
	})
	return found, err
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

// Confirm asks the API server, once, whether the owner is still the one that was read. It
// returns a conflict if the owner was deleted, is being deleted, was created anew under the
// same name, or has another spec.
func (c *Claimer[T]) Confirm(ctx context.Context) error {
	if c.confirmed {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(c.Reference.APIVersion, c.Reference.Kind)
	live := object.Metadata(gvk)
	key := client.ObjectKey{Namespace: c.Owner.GetNamespace(), Name: c.Owner.GetName()}
	if err := c.APIReader.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s: %w", gvk.Kind, key.Name, err)
	}
	if live.UID != c.Owner.GetUID() || live.Generation != c.Owner.GetGeneration() || !live.DeletionTimestamp.IsZero() {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name, errChanged)
	}
	c.confirmed = true
	return nil
}

package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Requests returns requests for the listed objects that match. It is for the
// watch of an object that they depend on. match must not modify its argument,
// which may be shared with the cache.
func Requests[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, match func(T) bool, options ...client.ListOption) []ctrl.Request {
	if err := c.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing objects failed", "list", fmt.Sprintf("%T", list))
		return nil
	}
	var requests []ctrl.Request
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(T); ok && match(obj) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading a list failed", "list", fmt.Sprintf("%T", list))
	}
	return requests
}

// SpecOrMetadataChanged passes updates of spec, annotations and labels. It drops
// status updates, which the controller makes itself.
func SpecOrMetadataChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// StopsUsing passes objects that may have stopped using another object: deleted
// ones, and updated ones whose reference changed.
func StopsUsing[T client.Object](referenceChanged func(previous, current T) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, ok := e.ObjectOld.(T)
			current, same := e.ObjectNew.(T)
			return ok && same && referenceChanged(previous, current)
		},
	}
}

package reconcile

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

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

package workspacetemplate

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/usage"
)

// unused waits until no workspace uses the template.
func (r *Reconciler) unused(ctx context.Context, s *scope) error {
	users, err := r.Usage.OfTemplate(ctx, client.ObjectKeyFromObject(s.template))
	if err != nil {
		return err
	}
	return usage.Wait(users)
}

// asked lets through what a person asks for; what this controller writes itself
// is no reason to look again.
func asked() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// letsGo lets through the workspaces that stop using a template: they are gone,
// or turned to another one.
func letsGo() predicate.Predicate {
	return predicate.TypedFuncs[client.Object]{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*infrav1.WorkspaceTemplateApply)
			after, same := e.ObjectNew.(*infrav1.WorkspaceTemplateApply)
			return ok && same && before.Spec.TemplateRef.Key(before.Namespace) != after.Spec.TemplateRef.Key(after.Namespace)
		},
	}
}

// released finds the template of a workspace, if it waits for it to go.
func (r *Reconciler) released(ctx context.Context, obj client.Object) []ctrl.Request {
	apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
	if !ok {
		return nil
	}
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	var template infrav1.WorkspaceTemplate
	if err := r.Client.Get(ctx, key, &template); err != nil || template.DeletionTimestamp.IsZero() {
		// A template that is not being deleted waits for nobody, and the start
		// of a deletion is an event of its own.
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}

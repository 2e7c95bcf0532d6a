package workspacetemplate

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// deletingTemplate returns the template of a workspace if it is being deleted.
// Other templates do not wait for their workspaces, and the start of a deletion
// is an event of the template itself.
func (r *Reconciler) deletingTemplate(ctx context.Context, obj client.Object) []ctrl.Request {
	apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
	if !ok {
		return nil
	}
	key := apply.Spec.TemplateRef.Key(apply.Namespace)
	var template infrav1.WorkspaceTemplate
	if err := r.Client.Get(ctx, key, &template); err != nil || template.DeletionTimestamp.IsZero() {
		return nil
	}
	return []ctrl.Request{{NamespacedName: key}}
}

package workspace

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// Template returns the template that an object in a namespace refers to. It waits
// for a template that does not exist, or that is not granted to the namespace.
func (k *Keeper) Template(ctx context.Context, namespace string, ref infrav1.TemplateReference) (*infrav1.WorkspaceTemplate, error) {
	key := ref.Key(namespace)
	if err := k.Grants.Check(ctx, namespace, infrav1.GrantedWorkspaceTemplate, key); err != nil {
		return nil, err
	}
	template := &infrav1.WorkspaceTemplate{}
	err := k.Client.Get(ctx, key, template)
	if err := reconcile.WaitIfNotFound(err, infrav1.WaitingForTemplateReason, "WorkspaceTemplate "+key.String(), "create it, or change the reference"); err != nil {
		return nil, err
	}
	return template, nil
}

// EnsureFrom reads the template that an owner refers to, and ensures the workspace
// that desired returns for it.
func (k *Keeper) EnsureFrom(ctx context.Context, owner client.Object, ref infrav1.TemplateReference, desired func(*infrav1.WorkspaceTemplate) (Desired, error)) (*infrav1.WorkspaceTemplateApply, error) {
	template, err := k.Template(ctx, owner.GetNamespace(), ref)
	if err != nil {
		return nil, err
	}
	wanted, err := desired(template)
	if err != nil {
		return nil, err
	}
	return k.Ensure(ctx, owner, wanted)
}

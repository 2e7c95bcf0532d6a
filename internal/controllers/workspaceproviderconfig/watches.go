package workspaceproviderconfig

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile"
)

// secretIndex is the index of the configs by the names of their Secrets.
const secretIndex = "capt.secret"

func index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.WorkspaceProviderConfig{}, secretIndex, func(obj client.Object) []string {
		config, ok := obj.(*infrav1.WorkspaceProviderConfig)
		if !ok {
			return nil
		}
		return secretNames(config)
	})
	if err != nil {
		return fmt.Errorf("indexing provider configs by Secret: %w", err)
	}
	return nil
}

// configChanged reports whether a template changed to another config.
func configChanged(previous, current *infrav1.WorkspaceTemplate) bool {
	return configName(previous) != configName(current)
}

func configName(template *infrav1.WorkspaceTemplate) string {
	if ref := template.Spec.Template.Spec.ProviderConfigRef; ref != nil {
		return ref.Name
	}
	return ""
}

// usersOfSecret returns the configs that refer to a Secret.
func (r *Reconciler) usersOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	return r.find(ctx, func(*infrav1.WorkspaceProviderConfig) bool { return true },
		client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
}

// deletingInNamespace returns the configs that are being deleted in the namespace
// of a workspace. All of them may have waited for it: the template, which has the
// reference to the config, may already be deleted.
func (r *Reconciler) deletingInNamespace(ctx context.Context, workspace client.Object) []ctrl.Request {
	return r.find(ctx, isDeleting, client.InNamespace(workspace.GetNamespace()))
}

// deleting returns the configs that are being deleted in all namespaces, because
// workspaces of any namespace can use a template.
func (r *Reconciler) deleting(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.find(ctx, isDeleting)
}

func isDeleting(config *infrav1.WorkspaceProviderConfig) bool {
	return !config.DeletionTimestamp.IsZero()
}

func (r *Reconciler) find(ctx context.Context, match func(*infrav1.WorkspaceProviderConfig) bool, options ...client.ListOption) []ctrl.Request {
	return reconcile.Requests(ctx, r.Client, &infrav1.WorkspaceProviderConfigList{}, match, options...)
}

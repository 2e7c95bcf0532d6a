package workspaceproviderconfig

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// secretIndex finds the configs that name a Secret.
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

// asked lets through what a person asks for; what this controller writes itself
// is no reason to look again.
func asked() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// letsGo lets through objects that are gone, and those that changed so that
// they may have stopped using a config.
func letsGo[T client.Object](changed func(before, after T) bool) predicate.Predicate {
	return predicate.TypedFuncs[client.Object]{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(T)
			after, same := e.ObjectNew.(T)
			return ok && same && changed(before, after)
		},
	}
}

func workspaceLetsGo() predicate.Predicate {
	return letsGo(func(before, after *infrav1.WorkspaceTemplateApply) bool {
		return before.Spec.TemplateRef.Key(before.Namespace) != after.Spec.TemplateRef.Key(after.Namespace)
	})
}

func templateLetsGo() predicate.Predicate {
	return letsGo(func(before, after *infrav1.WorkspaceTemplate) bool {
		return nameOf(before) != nameOf(after)
	})
}

func nameOf(template *infrav1.WorkspaceTemplate) string {
	if ref := template.Spec.Template.Spec.ProviderConfigRef; ref != nil {
		return ref.Name
	}
	return ""
}

// naming finds the configs that name a Secret.
func (r *Reconciler) naming(ctx context.Context, secret client.Object) []ctrl.Request {
	return r.find(ctx, func(*infrav1.WorkspaceProviderConfig) bool { return true },
		client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
}

// waitingBeside finds the configs that may wait for a workspace to go. Which
// one the workspace used is not asked: its template may be gone by now.
func (r *Reconciler) waitingBeside(ctx context.Context, workspace client.Object) []ctrl.Request {
	return r.find(ctx, isDeleting, client.InNamespace(workspace.GetNamespace()))
}

// waitingAnywhere finds the configs that may wait for a template to go, whose
// workspaces can be in any namespace.
func (r *Reconciler) waitingAnywhere(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.find(ctx, isDeleting)
}

func isDeleting(config *infrav1.WorkspaceProviderConfig) bool {
	return !config.DeletionTimestamp.IsZero()
}

func (r *Reconciler) find(ctx context.Context, match func(*infrav1.WorkspaceProviderConfig) bool, options ...client.ListOption) []ctrl.Request {
	var configs infrav1.WorkspaceProviderConfigList
	if err := r.Client.List(ctx, &configs, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing provider configs")
		return nil
	}
	var requests []ctrl.Request
	for i := range configs.Items {
		if match(&configs.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&configs.Items[i])})
		}
	}
	return requests
}

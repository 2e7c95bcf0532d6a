// Package usage tells which workspaces use a template or a provider config, so
// that neither goes before what was made with it.
package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// templateIndex finds the workspaces of a template in every namespace.
const templateIndex = "capt.template"

// Index lets the cache find workspaces by their template. It is called once,
// before the manager starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, templateIndex, func(obj client.Object) []string {
		apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
		if !ok {
			return nil
		}
		return []string{apply.Spec.TemplateRef.Key(apply.Namespace).String()}
	})
	if err != nil {
		return fmt.Errorf("indexing workspaces by template: %w", err)
	}
	return nil
}

// Finder finds workspaces. The cache answers first; only when it knows of no
// workspace the API server is asked, because the cache may be behind and what
// depends on the answer cannot be undone.
type Finder struct {
	// Cache must have been given to Index.
	Cache client.Reader
	// Live reads past the cache.
	Live client.Reader
	// Namespace is the only one that the manager sees; empty is all.
	Namespace string
}

// OfTemplate lists the workspaces that use a template, in any namespace.
func (f Finder) OfTemplate(ctx context.Context, template client.ObjectKey) ([]client.ObjectKey, error) {
	uses := func(apply *infrav1.WorkspaceTemplateApply) (bool, error) { return apply.Spec.TemplateRef.Key(apply.Namespace) == template, nil }
	found, err := list(ctx, f.Cache, uses, client.MatchingFields{templateIndex: template.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return list(ctx, f.Live, uses, client.InNamespace(f.Namespace))
}

// OfProviderConfig lists the workspaces that use a provider config: those in
// its namespace whose template, wherever that is, names it.
func (f Finder) OfProviderConfig(ctx context.Context, config client.ObjectKey) ([]client.ObjectKey, error) {
	found, err := list(ctx, f.Cache, f.names(ctx, f.Cache, config.Name), client.InNamespace(config.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return list(ctx, f.Live, f.names(ctx, f.Live, config.Name), client.InNamespace(config.Namespace))
}

// names tells of a workspace whether its template names the provider config. A
// template that does not exist names none.
func (f Finder) names(ctx context.Context, reader client.Reader, config string) func(*infrav1.WorkspaceTemplateApply) (bool, error) {
	known := map[client.ObjectKey]bool{}
	return func(apply *infrav1.WorkspaceTemplateApply) (bool, error) {
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		if f.Namespace != "" && key.Namespace != f.Namespace {
			return false, nil
		}
		if uses, found := known[key]; found {
			return uses, nil
		}
		var template infrav1.WorkspaceTemplate
		if err := reader.Get(ctx, key, &template); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading template %s: %w", key, err)
		} else if apierrors.IsNotFound(err) {
			return false, nil
		}
		ref := template.Spec.Template.Spec.ProviderConfigRef
		known[key] = ref != nil && ref.Name == config
		return known[key], nil
	}
}

// list returns the workspaces that match, by name.
func list(ctx context.Context, reader client.Reader, match func(*infrav1.WorkspaceTemplateApply) (bool, error), options ...client.ListOption) ([]client.ObjectKey, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, options...); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var found []client.ObjectKey
	for i := range applies.Items {
		uses, err := match(&applies.Items[i])
		if err != nil {
			return nil, err
		}
		if uses {
			found = append(found, client.ObjectKeyFromObject(&applies.Items[i]))
		}
	}
	slices.SortFunc(found, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// mostNamed is how many workspaces a wait names.
const mostNamed = 5

// Wait waits until nobody uses the object any more. A watch of the workspaces
// has to end the wait.
func Wait(users []client.ObjectKey) error {
	if len(users) == 0 {
		return nil
	}
	var names []string
	for _, key := range users[:min(len(users), mostNamed)] {
		names = append(names, key.String())
	}
	text := strings.Join(names, ", ")
	if more := len(users) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fault.Wait(infrav1.InUseReason, "Needed to destroy what was made with it, until these WorkspaceTemplateApplies are gone: %s", text)
}
